"""The losses of the domain game (MDAN, CMSS, DSBN, FADA) against values worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from galafed.adversarial import curriculum, domain_loss, hardest_source, ramp, reversed_gradient, smooth_sources

LOG2 = math.log(2)


def test_domain_loss_by_hand() -> None:
    # D = σ(0) = 1/2 and σ(log 3) = 3/4 on the sources, σ(-log 3) = 1/4 on the target.
    source, target = torch.tensor([[0.0], [math.log(3)]]), torch.tensor([[-math.log(3)]])
    expected = (LOG2 - math.log(3 / 4)) / 2 - math.log(3 / 4)
    assert domain_loss(source, target).item() == pytest.approx(expected)


def test_domain_loss_of_a_discriminator_that_knows_nothing_is_two_bits_worth() -> None:
    assert domain_loss(torch.zeros(5), torch.zeros(3)).item() == pytest.approx(2 * LOG2)


def test_domain_loss_survives_a_discriminator_that_is_utterly_wrong() -> None:
    assert domain_loss(torch.tensor([-1e4]), torch.tensor([1e4])).item() == pytest.approx(2e4)


def test_weights_of_the_curriculum_touch_the_sources_alone() -> None:
    source, target = torch.tensor([0.0, math.log(3)]), torch.tensor([0.0])
    weighted = domain_loss(source, target, torch.tensor([2.0, 0.0]))
    assert weighted.item() == pytest.approx(2 * LOG2 / 2 + LOG2)


def test_curriculum_has_mean_one_and_prefers_high_scores() -> None:
    weights = curriculum(torch.tensor([[0.0], [math.log(3)]]))
    torch.testing.assert_close(weights, torch.tensor([0.5, 1.5]))
    assert curriculum(torch.full((7, 1), 3.0)).tolist() == pytest.approx([1.0] * 7)


def test_hard_bound_is_the_worst_task_loss_and_the_least_domain_loss() -> None:
    task, domain = torch.tensor([1.0, 3.0]), torch.tensor([0.5, 2.0])
    assert hardest_source(task, domain, mu=0.1).item() == pytest.approx(3.05)


def test_soft_bound_by_hand_and_its_limit() -> None:
    task, domain = torch.tensor([1.0, 2.0]), torch.tensor([10.0, 5.0])
    each = [1 + 0.1 * 10, 2 + 0.1 * 5]
    expected = math.log(math.exp(2 * each[0]) + math.exp(2 * each[1])) / 2
    assert smooth_sources(task, domain, mu=0.1, gamma=2.0).item() == pytest.approx(expected)
    assert smooth_sources(task, domain, mu=0.1, gamma=1e4).item() == pytest.approx(max(each))


def test_soft_bound_weighs_gradients_by_a_softmax() -> None:
    task = torch.tensor([1.0, 2.0], requires_grad=True)
    smooth_sources(task, torch.zeros(2), mu=1.0, gamma=1.0).backward()
    assert task.grad is not None
    torch.testing.assert_close(task.grad, torch.tensor([1.0, 2.0]).softmax(dim=0))


def test_reversal_keeps_the_value_and_turns_the_gradient() -> None:
    x = torch.tensor([0.1, -3.7], requires_grad=True)
    y = reversed_gradient(x)
    assert torch.equal(y, x)
    (y * torch.tensor([2.0, 5.0])).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [-2.0, -5.0]


@pytest.mark.parametrize(("progress", "expected"), [(0.0, 0.0), (0.1, math.tanh(0.5)), (1.0, math.tanh(5.0))])
def test_ramp_by_hand(progress: float, expected: float) -> None:
    # 2 / (1 + exp(-10 p)) - 1 is tanh(5 p).
    assert ramp(progress) == pytest.approx(expected)
    assert ramp(progress, steepness=0.0) == 0
