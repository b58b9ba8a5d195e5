"""L_full, IDD and IGD (Eq. 2 to 5) against values worked out by hand."""

from __future__ import annotations

import pytest
import torch

from galafed.discrepancy import full, group_mean, inter_domain, inter_group, normalised_full

# Two images, two classes.
A = torch.tensor([[1.0, 0.0], [0.5, 0.5]])
B = torch.tensor([[0.0, 1.0], [0.5, 0.5]])
C = torch.tensor([[0.5, 0.5], [0.75, 0.25]])
HEADS = {"a": A, "b": B, "c": C}


@pytest.mark.parametrize(("p", "q", "expected"), [(A, B, 1.0), (A, C, 0.75), (B, C, 0.75), (A, A, 0.0)])
def test_inter_domain_is_the_mean_over_images_of_the_sum_over_classes(
    p: torch.Tensor, q: torch.Tensor, expected: float
) -> None:
    assert inter_domain(p, q).item() == pytest.approx(expected)
    assert inter_domain(q, p).item() == pytest.approx(expected)


def test_inter_domain_of_opposite_certainties_is_two() -> None:
    certain = torch.eye(10)
    assert inter_domain(certain, certain.roll(1, dims=1)).item() == pytest.approx(2.0)


def test_full_is_the_sum_over_pairs() -> None:
    assert full([A, B, C]).item() == pytest.approx(2.5)
    assert normalised_full([A, B, C]).item() == pytest.approx(2.5 / 3)


def test_group_mean_averages_outputs() -> None:
    mean = group_mean(HEADS, {"a": 0.25, "c": 0.75})
    torch.testing.assert_close(mean, torch.tensor([[0.625, 0.375], [0.6875, 0.3125]]))


def test_inter_group_by_hand() -> None:
    # Group 2 is (B + C) / 2 = [[.25, .75], [.625, .375]]: distances 1.5 and .25.
    assert inter_group(HEADS, [{"a": 1.0}, {"b": 0.5, "c": 0.5}]).item() == pytest.approx(0.875)


def test_inter_group_of_single_heads_is_inter_domain() -> None:
    assert torch.equal(inter_group(HEADS, [{"a": 1.0}, {"c": 1.0}]), inter_domain(A, C))


def test_inter_group_is_symmetric() -> None:
    groups = [{"a": 0.3, "b": 0.7}, {"c": 1.0}]
    assert inter_group(HEADS, groups).item() == pytest.approx(inter_group(HEADS, groups[::-1]).item())


def test_inter_group_of_equal_heads_is_zero() -> None:
    same = dict.fromkeys("abcd", A)
    assert inter_group(same, [{"a": 0.5, "b": 0.5}, {"c": 0.5, "d": 0.5}]).item() == 0


def test_gradient_reaches_both_groups_with_opposite_signs() -> None:
    p, q = A.clone().requires_grad_(), C.clone().requires_grad_()
    inter_group({"p": p, "q": q}, [{"p": 1.0}, {"q": 1.0}]).backward()
    assert p.grad is not None
    assert q.grad is not None
    torch.testing.assert_close(p.grad, -q.grad)
    torch.testing.assert_close(p.grad, (A - C).sign() / 2)
