"""The consensus focus in every form against its definition over all orders, and the knowledge vote by hand."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch

from galafed.consensus_focus import Form, best_form, by_sampling, class_totals, consensus_focus, knowledge_vote
from galafed.shapley_blocks import by_blocks, gauss_legendre, subsets, subsets_of_the_rest

CLASSES = 4
EXACT: tuple[Form, ...] = ("subsets", "blocks")


def votes(images: int, sources: int, seed: int, *, classes: int = CLASSES) -> tuple[torch.Tensor, torch.Tensor]:
    """Confidences that lie mostly near 1, as those of trained networks do, and votes that often agree."""
    rng = torch.Generator().manual_seed(seed)
    confidence = 1 - 0.6 * torch.rand(images, sources, generator=rng, dtype=torch.float64) ** 2
    true = torch.randint(classes, (images, 1), generator=rng)
    other = torch.randint(classes, (images, sources), generator=rng)
    return confidence, torch.where(torch.rand(images, sources, generator=rng) < 0.6, true, other)


def worth(coalition: tuple[int, ...], m: list[float], k: list[int], gate: float) -> float:
    """v(S) of one image."""
    totals: dict[int, float] = {}
    for i in coalition:
        if m[i] > gate:
            totals[k[i]] = totals.get(k[i], 0.0) + m[i]
    return max(totals.values(), default=0.0)


def by_definition(confidence: torch.Tensor, vote: torch.Tensor, gate: float) -> torch.Tensor:
    """Mean over all N! orders of what each source adds when it joins, summed over images."""
    sources = confidence.shape[1]
    focus = [0.0] * sources
    orders = list(permutations(range(sources)))
    for m, k in zip(confidence.tolist(), vote.tolist(), strict=True):
        for order in orders:
            for place, source in enumerate(order):
                gain = worth(order[: place + 1], m, k, gate) - worth(order[:place], m, k, gate)
                focus[source] += gain / len(orders)
    return torch.tensor(focus, dtype=torch.float64)


def test_two_sources_that_dispute_share_by_hand() -> None:
    # v(1) = .98, v(2) = .92, v(12) = .98: φ_1 = (.98 + .06)/2, φ_2 = (.92 + 0)/2
    confidence, vote = torch.tensor([[0.98, 0.92]], dtype=torch.float64), torch.tensor([[0, 1]])
    for form in EXACT:
        found = consensus_focus(confidence, vote, gate=0.9, classes=2, form=form)
        torch.testing.assert_close(found, torch.tensor([0.52, 0.46], dtype=torch.float64))


@pytest.mark.parametrize("form", EXACT)
@pytest.mark.parametrize("gate", [0.5, 0.9, 0.95])
@pytest.mark.parametrize("sources", [1, 2, 3, 4, 5, 6])
def test_exact_forms_equal_the_definition(form: Form, gate: float, sources: int) -> None:
    confidence, vote = votes(25, sources, seed=sources)
    found = consensus_focus(confidence, vote, gate=gate, classes=CLASSES, form=form)
    expected = by_definition(confidence, vote, gate)
    assert expected.max() > 0
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("sources", [7, 9, 12])
def test_exact_forms_equal_each_other_with_many_sources(sources: int) -> None:
    confidence, vote = votes(60, sources, seed=1)
    one, two = (consensus_focus(confidence, vote, gate=0.6, classes=CLASSES, form=form) for form in EXACT)
    torch.testing.assert_close(one, two, rtol=0, atol=1e-10)


@pytest.mark.parametrize("blocks", [(9, 8), (16, 1), (6, 6, 5), (1,) * 17, (3, 2, 1)])
def test_block_form_with_given_blocks_is_efficient_and_symmetric(blocks: tuple[int, ...]) -> None:
    sources = sum(blocks)
    vote = torch.cat([torch.full((size,), number) for number, size in enumerate(blocks)])[None].expand(3, -1)
    m = 0.95 + 0.05 * torch.rand(3, sources, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    m[:, 1] = m[:, 0]
    found = torch.stack([by_blocks(m[i : i + 1], vote[i : i + 1], 0.95) for i in range(3)])
    torch.testing.assert_close(found.sum(dim=1), class_totals(m, vote, len(blocks)).amax(dim=1))
    if blocks[0] > 1:
        torch.testing.assert_close(found[:, 0], found[:, 1])
    torch.testing.assert_close(found.sum(dim=0), by_blocks(m, vote, 0.95))


@pytest.mark.parametrize("form", ["subsets", "blocks", "sampled", "auto"])
@pytest.mark.parametrize("sources", [2, 5, 9, 17, 23])
def test_shares_add_up_to_the_worth_of_all_and_a_source_never_sure_gets_nothing(form: Form, sources: int) -> None:
    if (form == "subsets" and sources > 9) or (form == "blocks" and sources > 17):
        pytest.skip("this form is not meant for so many")
    confidence, vote = votes(40, sources, seed=2)
    confidence[:, 0] = 0.5
    found = consensus_focus(confidence, vote, gate=0.7, classes=CLASSES, form=form)
    sure = confidence * (confidence > 0.7)
    torch.testing.assert_close(found.sum(), class_totals(sure, vote, CLASSES).amax(dim=1).sum())
    assert found[0] == pytest.approx(0, abs=1e-12)
    assert (found >= -1e-12).all()


@pytest.mark.parametrize(
    ("sources", "gate", "form"),
    [
        (2, 0.9, "subsets"),
        (10, 0.1, "subsets"),
        (11, 0.9, "blocks"),
        (17, 0.9, "blocks"),
        (17, 0.1, "sampled"),
        (40, 0.9, "sampled"),
    ],
)
def test_form_is_chosen_by_sources_and_gate(sources: int, gate: float, form: Form) -> None:
    assert best_form(sources, gate) == form


def test_equal_sources_get_equal_shares() -> None:
    confidence, vote = votes(30, 6, seed=3)
    confidence[:, 4], vote[:, 4] = confidence[:, 2], vote[:, 2]
    for form in EXACT:
        found = consensus_focus(confidence, vote, gate=0.8, classes=CLASSES, form=form)
        torch.testing.assert_close(found[4], found[2])


def test_nobody_sure_means_no_focus() -> None:
    confidence, vote = votes(10, 3, seed=4)
    assert consensus_focus(confidence, vote, gate=0.9999999, classes=CLASSES).tolist() == [0, 0, 0]


def test_sampled_form_is_unbiased_and_its_error_is_small() -> None:
    confidence, vote = votes(400, 6, seed=5)
    exact = consensus_focus(confidence, vote, gate=0.7, classes=CLASSES, form="blocks")
    draws = torch.stack(
        [consensus_focus(confidence, vote, gate=0.7, classes=CLASSES, form="sampled", seed=s) for s in range(200)]
    )
    spread = draws.std(dim=0)
    assert (spread > 0).all()
    assert ((draws.mean(dim=0) - exact).abs() < 4 * spread / 200**0.5 + 1e-9).all()
    assert ((draws / draws.sum(dim=1, keepdim=True) - exact / exact.sum()).square().mean().sqrt()) < 0.01


def test_sampled_form_depends_on_its_seed_alone() -> None:
    confidence, vote = votes(50, 5, seed=6)
    first = by_sampling(confidence, vote, CLASSES, 1)
    torch.rand(3)
    assert torch.equal(by_sampling(confidence, vote, CLASSES, 1), first)
    assert not torch.equal(by_sampling(confidence, vote, CLASSES, 2), first)


def test_knowledge_vote_by_hand() -> None:
    confidence = torch.tensor([[0.95, 0.6, 0.7], [0.92, 0.95, 0.93], [0.5, 0.45, 0.4], [0.99, 0.2, 0.91]])
    vote = torch.tensor([[0, 1, 1], [0, 1, 0], [2, 1, 1], [1, 0, 0]])
    found = knowledge_vote(confidence, vote, gate=0.9, classes=3)
    # 1: only the first is sure; 2: .92 + .93 against .95; 3: nobody is sure, .85 against .5; 4: .99 against .91
    assert found.label.tolist() == [0, 0, 1, 1]
    assert found.kept.tolist() == [True, True, False, True]


def test_subsets_are_complete() -> None:
    assert subsets(4, 9).sum(dim=1).tolist() == [0] + [1] * 4 + [2] * 6 + [3] * 4 + [4]
    assert subsets(4, 1).tolist() == [[0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    rest = subsets_of_the_rest(3, 3)
    assert rest[1].tolist() == [[0, 0, 0], [1, 0, 0], [0, 0, 1], [1, 0, 1]]


def test_quadrature_is_exact_to_its_degree() -> None:
    for count in (1, 3, 9):
        nodes, weights = gauss_legendre(count)
        for degree in range(2 * count):
            integral = sum(w * x**degree for x, w in zip(nodes, weights, strict=True))
            assert integral == pytest.approx(1 / (degree + 1), abs=1e-14)
