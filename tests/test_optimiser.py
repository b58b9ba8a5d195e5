"""Gradient descent by PyTorch's function: the same bits as by its class, and none of what the class loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from galafed.networks.layers import Dropout, materialised
from galafed.optimiser import Optimiser
from galafed.work import Sgd

FIRST = ("0.weight", "0.bias")
"""Parameters of the first layer, which has no gradient in every third step."""


def module() -> nn.Sequential:
    """Two layers with their numbers drawn."""
    made = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)).double()
    draw = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draw, dtype=torch.float64))
    return made


def gradients(made: nn.Module, step: int) -> None:
    """As a backward pass leaves them."""
    draw = torch.Generator().manual_seed(step)
    for name, parameter in made.named_parameters():
        parameter.grad = torch.randn(parameter.shape, generator=draw, dtype=torch.float64)
        if name in FIRST and step % 3 == 0:
            parameter.grad = None


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("decay", [0.0, 0.05])
@pytest.mark.parametrize("kept", [(), ("1.weight",), (*FIRST, "1.weight", "1.bias")], ids=len)
def test_steps_have_the_bits_of_pytorchs_class(momentum: float, decay: float, kept: tuple[str, ...]) -> None:
    ours, theirs = module(), module()
    before = {name: torch.full_like(p, 0.5).detach() for name, p in ours.named_parameters() if name in kept}
    mine = Optimiser(Sgd(lr=0.3, momentum=momentum, weight_decay=decay), 0.1, ours, before)
    reference = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=momentum, weight_decay=decay)
    for name, parameter in theirs.named_parameters():
        if name in kept:
            reference.state[parameter]["momentum_buffer"] = before[name].clone()
    for step in range(4):
        for made, optimiser in ((ours, mine), (theirs, reference)):
            gradients(made, step)
            optimiser.step()
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))
    expected: dict[str, Tensor | None] = {
        name: reference.state[p].get("momentum_buffer") for name, p in theirs.named_parameters()
    }
    found = mine.momentum()
    assert set(found) == {name for name, value in expected.items() if value is not None}
    assert all(torch.equal(value, expected[name]) for name, value in found.items())
    assert all(torch.equal(value, torch.full_like(value, 0.5)) for value in before.values()), "what is kept was changed"


def test_what_never_moved_has_no_momentum_and_gradients_are_forgotten() -> None:
    made = module()
    mine = Optimiser(Sgd(lr=0.1, momentum=0.9), 0.1, made, None)
    gradients(made, 0)
    mine.step()
    assert set(mine.momentum()) == {"1.weight", "1.bias"}
    mine.forget_gradients()
    assert [parameter.grad for parameter in made.parameters()] == [None] * 4


def test_a_module_without_memory_gets_some() -> None:
    with torch.device("meta"):
        made = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), Dropout(0.5, layer=0))
    filled = materialised(made, torch.device("cpu"), torch.float64)
    values = dict(filled.named_parameters()) | dict(filled.named_buffers())
    assert {value.device.type for value in values.values()} == {"cpu"}
    assert values["0.weight"].dtype == values["1.running_var"].dtype == torch.float64
    assert values["1.num_batches_tracked"].dtype == values["2.key"].dtype == torch.int64
    assert all(parameter.requires_grad and parameter.is_leaf for parameter in filled.parameters())


RUNS = """
import sys
from pathlib import Path
from galafed.config import resolve
from galafed.runs.runner import start
for algorithm in ("gala", "shot"):
    settings = {"benchmark": "toy", "algorithm": algorithm, "rounds": 2, "threads": 1, "engine": sys.argv[1]}
    start(resolve(settings), Path(sys.argv[2] + algorithm))
print(sorted({"sympy", "torch._dynamo"} & set(sys.modules)))
"""


@pytest.mark.parametrize(
    ("engine", "loaded"),
    [("serial", []), ("stacked", ["sympy"])],  # torch loads it where it is given gradients to begin with
)
def test_a_run_does_not_load_the_compiler_and_at_sites_no_symbolic_shapes(
    engine: str, loaded: list[str], tmp_path: Path
) -> None:
    """They take 1.5 s of a processor in every process, where a run on `toy` takes 2.5 without them."""
    command = [sys.executable, "-c", RUNS, engine, str(tmp_path / "run-")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(loaded)
