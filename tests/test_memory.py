"""What a run plans to keep on a GPU, told by a GPU that is not there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from galafed.config import Run
from galafed.networks.base import networks
from galafed.runs import sharing
from galafed.stacking.memory import FEWEST_IMAGES, MOST_IMAGES, available, hold_to, images_at_best
from in_process import done_here

GPU = torch.device("cuda", 0)


class Gpu:
    """The numbers torch would tell, and the shares it was told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, numbers: Mapping[str, Any]) -> None:
        self.shares: dict[int, float] = {}
        for name, value in numbers.items():
            monkeypatch.setattr(torch.cuda, name, lambda *device, value=value: value)
        monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", self._hold)
        monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda device: self.shares.get(device, 1.0))

    def _hold(self, share: float, device: int) -> None:
        self.shares[device] = share


@pytest.mark.parametrize(("free", "jobs", "expected"), [(100, 1, 106), (100, 2, 62.5), (20, 2, 26), (130, 7, 15)])
def test_a_run_plans_with_what_is_free_and_with_no_more_than_its_share(
    monkeypatch: pytest.MonkeyPatch, free: int, jobs: int, expected: float
) -> None:
    gpu = Gpu(monkeypatch, {
        "device_count": 2, "mem_get_info": (free, 140), "memory_reserved": 10, "memory_allocated": 4,
    })  # fmt: skip
    hold_to(1 / jobs)
    assert gpu.shares == pytest.approx({0: 0.95 / jobs, 1: 0.95 / jobs})
    assert available(GPU) == pytest.approx(expected)


def test_runs_side_by_side_have_equal_shares(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told: list[float] = []
    monkeypatch.setattr(sharing, "shared_out", done_here)
    monkeypatch.setattr(sharing, "_do", lambda run, folder, deadline, share: told.append(share))
    sharing.carry_out([Run(), Run(seed=1)], tmp_path, jobs=4, minutes=0, place={}, say=print)
    assert told == [0.25, 0.25]


def test_large_networks_pass_over_fewer_images_at_once() -> None:
    small = networks.get("digit_cnn")(classes=10, image_size=32)
    large = networks.get("efficientnet_lite0")(classes=10, image_size=224)
    assert images_at_best(small, GPU) == MOST_IMAGES
    assert FEWEST_IMAGES < images_at_best(large, GPU) < 256
    assert images_at_best(small, torch.device("cpu")) == FEWEST_IMAGES
