"""FADA's estimate of mutual information, its confusion of classes, the gap statistic and the attention, by hand."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch

from galafed.disentanglement import attention, class_confusion, gap_statistic, mutual_information


def test_mutual_information_by_hand() -> None:
    joint, marginal = torch.tensor([[1.0], [3.0]]), torch.tensor([[0.0], [math.log(3)]])
    assert mutual_information(joint, marginal).item() == pytest.approx(2 - math.log(2))


def test_mutual_information_of_scores_that_tell_nothing_is_zero() -> None:
    scores = torch.full((4, 1), 0.7)
    assert mutual_information(scores, scores).item() == pytest.approx(0, abs=1e-6)


def test_mutual_information_does_not_overflow() -> None:
    assert mutual_information(torch.zeros(2, 1), torch.tensor([[1000.0], [0.0]])).item() == pytest.approx(
        math.log(2) - 1000
    )


def test_class_confusion_by_hand_and_least_for_no_opinion() -> None:
    logits = torch.log(torch.tensor([[0.25, 0.75]]))
    assert class_confusion(logits).item() == pytest.approx(-(math.log(0.25) + math.log(0.75)) / 2)
    assert class_confusion(torch.zeros(3, 10)).item() == pytest.approx(math.log(10))
    assert class_confusion(torch.eye(10)).item() > math.log(10)


def test_gap_statistic_by_hand() -> None:
    features = torch.tensor([[0.0], [2.0], [10.0], [13.0]])  # clusters {0, 2}, {10, 13}
    assert gap_statistic(features, 2).item() == pytest.approx(2 + 4.5)
    assert gap_statistic(features, 1).item() == pytest.approx(sum((x - 6.25) ** 2 for x in (0, 2, 10, 13)))


def test_gap_statistic_is_half_the_mean_square_distance_within_clusters() -> None:
    clusters = [torch.tensor([[0.0, 0.0], [1.0, 3.0], [2.0, 0.0]]), torch.tensor([[50.0, 0.0], [50.0, 2.0]])]
    pairs = sum(
        float((a - b).square().sum()) / (2 * len(cluster)) for cluster in clusters for a, b in product(cluster, cluster)
    )
    assert gap_statistic(torch.cat(clusters), 2).item() == pytest.approx(pairs)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_gap_statistic_with_fewer_images_than_clusters_is_zero(count: int) -> None:
    features = torch.arange(3.0 * count).view(count, 3)
    assert gap_statistic(features, 10).item() == pytest.approx(0)


def test_gap_statistic_of_equal_features_is_zero() -> None:
    assert gap_statistic(torch.ones(6, 4), 3).item() == 0


def test_attention_is_the_softmax_of_relative_gains() -> None:
    found = attention(10.0, {"b": 10.0, "a": 5.0})  # gains 0 and 1/2
    expected = math.exp(0.5) / (1 + math.exp(0.5))
    assert found == pytest.approx({"a": expected, "b": 1 - expected})
    assert list(found) == ["a", "b"]
    assert attention(0.0, {"a": 0.0, "b": 0.0}) == {"a": 0.5, "b": 0.5}
