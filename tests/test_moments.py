"""The moment distance of M³SDA and the moving centroids of MSTN, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from galafed.moments import central_moments, moment_distance
from galafed.prototypes import moved, semantic_distance

# Means (1, 0), (1, 4), (4, 0); variances (1, 0), (1, 4), (0, 0).
A = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
B = torch.tensor([[0.0, 2.0], [2.0, 6.0]])
C = torch.tensor([[4.0, 0.0], [4.0, 0.0]])


def test_central_moments_by_hand() -> None:
    mean, variance, third = central_moments(torch.tensor([[0.0], [0.0], [3.0]]), 3)
    assert (mean.item(), variance.item(), third.item()) == pytest.approx((1.0, 2.0, 2.0))


def test_moment_distance_is_the_mean_over_orders_and_pairs() -> None:
    means = [4.0, 3.0, 5.0]  # A-B, A-C, B-C
    variances = [4.0, 1.0, math.sqrt(17)]
    assert moment_distance([A, B, C], orders=1).item() == pytest.approx(sum(means) / 3)
    assert moment_distance([A, B, C], orders=2).item() == pytest.approx(sum(means + variances) / 6)


def test_moment_distance_takes_domains_of_any_size_in_any_order() -> None:
    doubled = torch.cat([A, A])
    assert moment_distance([doubled, C]).item() == pytest.approx(moment_distance([C, A]).item())


def test_moment_distance_of_equal_domains_is_zero_with_a_finite_gradient() -> None:
    x = A.clone().requires_grad_()
    distance = moment_distance([x, A])
    distance.backward()
    assert distance.item() == 0
    assert x.grad is not None
    assert bool(torch.isfinite(x.grad).all())


def test_centroids_move_by_the_mean_of_their_class_and_stay_without_one() -> None:
    old = torch.tensor([[10.0], [20.0], [30.0]])
    features, labels = torch.tensor([[0.0], [2.0], [50.0]]), torch.tensor([0, 0, 2])
    new = moved(old, features, labels, rate=0.3)
    torch.testing.assert_close(new, torch.tensor([[0.7 * 10 + 0.3 * 1], [20.0], [0.7 * 30 + 0.3 * 50]]))


def test_centroids_pass_gradients_to_the_features_of_present_classes() -> None:
    features = torch.tensor([[1.0], [2.0], [5.0]], requires_grad=True)
    moved(torch.zeros(3, 1), features, torch.tensor([0, 0, 2]), rate=0.3).sum().backward()
    assert features.grad is not None
    torch.testing.assert_close(features.grad, torch.tensor([[0.15], [0.15], [0.3]]))


def test_semantic_distance_by_hand() -> None:
    one, two = torch.tensor([[0.0, 1.0], [2.0, 3.0]]), torch.tensor([[1.0, 1.0], [2.0, 0.0]])
    assert semantic_distance(one, two).item() == pytest.approx(10 / 4)
