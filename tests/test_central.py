"""One batch of every central method, recomputed step by step in plain PyTorch with gradients written down by hand."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from galafed import central
from galafed.adversarial import ramp
from galafed.algorithms import cmss, dsbn, m3sda, mdan
from galafed.algorithms.base import algorithms
from galafed.config import resolve
from galafed.domain_norms import normed, norms_of, pseudo_label, seen_by, self_train, through, transfer_semantics
from galafed.errors import ConfigError
from galafed.loops import Bench, Images, fit, sweep
from galafed.model import Model, State, digest
from galafed.networks.base import Network
from galafed.runs.assembly import assemble
from galafed.training import Training
from galafed.work import Task

STREAM = (7, "round", 0, "t", "pooled")
SOURCES, TARGET = ("a", "b", "c"), "t"
DOMAINS = (*SOURCES, TARGET)
LR = 0.05
SGD = {
    "lr": LR,
    "momentum": 0.0,
    "weight_decay": 0.0,
    "persistent": False,
    "extractor_rate": 1.0,
    "batch_size": 64,
    "epochs": 1,
}
CE = nn.functional.cross_entropy
BCE = nn.functional.binary_cross_entropy_with_logits


class Tiny(Network):
    """Pixels to six features to three logits; BatchNorm in both parts, no dropout."""

    name: ClassVar[str] = "tiny"
    feature_size = 6

    def extractor(self) -> nn.Module:
        layers = OrderedDict(flat=nn.Flatten(), full=nn.Linear(12, 6), norm=nn.BatchNorm1d(6), relu=nn.ReLU())
        return nn.Sequential(layers)

    def predictor(self) -> nn.Module:
        return nn.Sequential(OrderedDict(full=nn.Linear(6, 3), norm=nn.BatchNorm1d(3)))


class Plain(Tiny):
    """The same without BatchNorm."""

    name: ClassVar[str] = "plain"

    def extractor(self) -> nn.Module:
        return nn.Sequential(OrderedDict(flat=nn.Flatten(), full=nn.Linear(12, 6), relu=nn.ReLU()))

    def predictor(self) -> nn.Module:
        return nn.Sequential(OrderedDict(full=nn.Linear(6, 3)))


NETWORK = Tiny(classes=3, image_size=2)


def bench() -> Bench:
    return Bench(NETWORK, torch.device("cpu"), torch.float64)


def data() -> Images:
    streams = {}
    for seed, name in enumerate(DOMAINS):
        generator = torch.Generator().manual_seed(seed)
        pixels = torch.randint(0, 256, (9 + seed, 2, 2, 3), generator=generator, dtype=torch.uint8)
        streams[name] = Images(pixels, torch.arange(len(pixels)) % 3 if name != TARGET else None)
    sources = [streams[s] for s in SOURCES]
    labels = [s.labels for s in sources if s.labels is not None]
    return Images(torch.cat([s.images for s in sources]), torch.cat(labels), streams)


def fresh(*parts: str) -> dict[str, State]:
    return {part: NETWORK.fresh(part, 0, torch.float64) for part in parts}


class ByHand:
    """Modules, the images of every domain, and gradient steps on chosen parts."""

    def __init__(self, states: Mapping[str, State]) -> None:
        self.modules = {}
        for part, state in states.items():
            module = NETWORK.make(part).double().train()
            module.load_state_dict(state)
            self.modules[part] = module
        place, every = bench(), data()
        self.x = {d: NETWORK.prepare(every.streams[d].images, place.dtype) for d in DOMAINS}
        self.y = {d: every.streams[d].labels for d in SOURCES}

    def __getitem__(self, part: str) -> nn.Module:
        return self.modules[part]

    def gradients(self, loss: Tensor, part: str) -> list[Tensor]:
        parameters = list(self.modules[part].parameters())
        found = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
        return [torch.zeros_like(p) if g is None else g for g, p in zip(found, parameters, strict=True)]

    def descend(self, gradients: Mapping[str, list[Tensor]]) -> None:
        with torch.no_grad():
            for part, moves in gradients.items():
                adversary = part.startswith(("discriminator", "curriculum"))
                for parameter, move in zip(self.modules[part].parameters(), moves, strict=True):
                    parameter -= LR * (0.1 if adversary else 1.0) * move

    def step(self, loss: Callable[[], Tensor], *parts: str) -> float:
        value = loss()
        self.descend({part: self.gradients(value, part) for part in parts})
        return value.item()

    def assert_equals(self, states: Mapping[str, State]) -> None:
        for part, module in self.modules.items():
            for name, value in module.state_dict().items():
                torch.testing.assert_close(
                    states[part][name], value, rtol=0, atol=1e-10, msg=lambda m, n=f"{part} {name}": f"{n}: {m}"
                )


def run(task: Task, states: Mapping[str, State]) -> tuple[dict[str, State], tuple[float, ...]]:
    """One batch of all images of every domain, by the loop of the project."""
    done = fit(task.work, bench(), data(), states, stream=STREAM, momentum={})  # type: ignore[arg-type]
    return done.states, done.losses


# MDAN


@pytest.mark.parametrize("gamma", [10.0, 1.0, None])
def test_a_batch_of_mdan(gamma: float | None) -> None:
    mu = 0.3
    states = fresh("extractor", "predictor", *(f"discriminator:{s}" for s in SOURCES))
    found, losses = run(mdan.minimise_bound(sources=SOURCES, target=TARGET, mu=mu, gamma=gamma, **SGD), states)

    hand = ByHand(states)
    G, F, D = hand["extractor"], hand["predictor"], {s: hand[f"discriminator:{s}"] for s in SOURCES}

    def both() -> tuple[list[Tensor], list[Tensor]]:
        features = {d: G(hand.x[d]) for d in DOMAINS}
        task = [CE(F(features[s]), hand.y[s]) for s in SOURCES]
        domain = []
        for s in SOURCES:
            source, target = D[s](features[s]), D[s](features[TARGET])
            domain.append(BCE(source, torch.ones_like(source)) + BCE(target, torch.zeros_like(target)))
        return task, domain

    task, domain = both()
    labels, d = (torch.stack([loss.detach() for loss in each]) for each in (task, domain))
    if gamma is None:
        on_task, on_domain = (torch.eye(3)[i].double() for i in (labels.argmax(), d.argmin()))
        expected = labels.max() + mu * d.min()
    else:
        on_task = on_domain = (gamma * (labels + mu * d)).softmax(dim=0)
        expected = (gamma * (labels + mu * d)).exp().sum().log() / gamma
    assert losses[0] == pytest.approx(expected.item(), rel=1e-10)
    moves = {}
    for part in ("extractor", "predictor"):  # labels down, domains up
        total = [torch.zeros_like(p) for p in hand[part].parameters()]
        for i in range(3):
            down, up = hand.gradients(task[i], part), hand.gradients(domain[i], part)
            total = [m + on_task[i] * a - mu * on_domain[i] * b for m, a, b in zip(total, down, up, strict=True)]
        moves[part] = total
    hand.descend(moves)
    features = {domain: G(hand.x[domain]) for domain in ("a", TARGET, "b", "c")}  # in this order for the statistics
    for s in SOURCES:
        source, target = D[s](features[s]), D[s](features[TARGET])
        loss = BCE(source, torch.ones_like(source)) + BCE(target, torch.zeros_like(target))
        hand.descend({f"discriminator:{s}": hand.gradients(loss, f"discriminator:{s}")})
    hand.assert_equals(found)


# M³SDA


@pytest.mark.parametrize("classifiers", ["each", "shared"])
def test_a_batch_of_m3sda(classifiers: str) -> None:
    name = {"each": "predictor:{}.{}", "shared": "predictor:{1}"}[classifiers]
    heads = list(dict.fromkeys(name.format(s, k) for s in SOURCES for k in ("first", "second")))
    states = fresh("extractor", *heads)
    settings = {"moment_weight": 0.5, "moments": 2, "generator_steps": 4, "classifiers": classifiers}
    found, losses = run(m3sda.match_moments(sources=SOURCES, target=TARGET, **settings, **SGD), states)

    hand = ByHand(states)
    G = hand["extractor"]

    def distance(features: dict[str, Tensor]) -> Tensor:
        total, pairs = torch.zeros((), dtype=torch.float64), 0
        names = list(features)
        for i, one in enumerate(names):
            for two in names[i + 1 :]:
                a, b = features[one], features[two]
                total = total + ((a.mean(0) - b.mean(0)) ** 2).sum().sqrt()
                total = total + ((a.var(0, unbiased=False) - b.var(0, unbiased=False)) ** 2).sum().sqrt()
                pairs += 2
        return total / pairs

    def labels(features: dict[str, Tensor]) -> Tensor:
        each = [CE(hand[name.format(s, k)](features[s]), hand.y[s]) for s in SOURCES for k in m3sda.PAIR]
        return torch.stack(each).sum() / len(SOURCES)

    def disagreement(target: Tensor) -> Tensor:
        opinions, each = {head: hand[head](target).softmax(dim=1) for head in heads}, []
        for s in SOURCES:
            p, q = (opinions[name.format(s, k)] for k in m3sda.PAIR)
            each.append((p - q).abs().mean())
        return torch.stack(each).mean()

    def step_a() -> Tensor:
        features = {d: G(hand.x[d]) for d in DOMAINS}
        return labels(features) + 0.5 * distance(features)

    def step_b() -> Tensor:
        features = {d: G(hand.x[d]) for d in DOMAINS}
        return labels(features) - disagreement(features[TARGET])

    expected = [hand.step(step_a, "extractor", *heads), hand.step(step_b, *heads)]
    expected += [hand.step(lambda: disagreement(G(hand.x[TARGET])), "extractor") for _ in range(4)]
    assert losses == pytest.approx(expected, rel=1e-9)
    hand.assert_equals(found)


def test_m3sda_is_read_by_the_mean_of_all_its_classifiers() -> None:
    expected = {
        "shared": ["predictor:first", "predictor:second"],
        "each": [f"predictor:{s}.{k}" for s in "ab" for k in ("first", "second")],
    }
    for classifiers, heads in expected.items():
        settings = m3sda.Settings(classifiers=classifiers)  # type: ignore[arg-type]
        readout = m3sda.M3sda(settings, Training(), rounds=3).readout(("a", "b"))
        assert readout.rule == "mean"
        assert [path[1] for path in readout.paths] == heads


# CMSS


def test_a_batch_of_cmss() -> None:
    weight = 0.4
    states = fresh("extractor", "predictor", "discriminator", "curriculum")
    generator = torch.Generator().manual_seed(5)
    states["curriculum"]["full2.weight"] = torch.randn(1, 3, generator=generator, dtype=torch.float64)  # an opinion
    found, losses = run(cmss.weigh_sources(sources=SOURCES, target=TARGET, adversarial_weight=weight, **SGD), states)

    hand = ByHand(states)
    G, F, D, manager = (hand[part] for part in ("extractor", "predictor", "discriminator", "curriculum"))

    def game(*, free: bool) -> tuple[Tensor, Tensor]:
        """The task loss and the weighted domain loss; the manager's weights are constants unless `free`."""
        features = {d: G(hand.x[d]) for d in DOMAINS}
        task = torch.stack([CE(F(features[s]), hand.y[s]) for s in SOURCES]).mean() if not free else torch.zeros(())
        source = torch.cat([features[s] for s in SOURCES])
        scores = manager(source)[:, 0]
        w = len(scores) * scores.exp() / scores.exp().sum()
        w = w if free else w.detach()
        missed = -(w * D(source)[:, 0].sigmoid().log()).mean()
        return task, missed - (1 - D(features[TARGET])[:, 0].sigmoid()).log().mean()

    def deceive() -> Tensor:
        task, domain = game(free=False)
        return task - weight * domain

    expected = [hand.step(deceive, "extractor", "predictor")]
    saved = {name: value.clone() for name, value in F.state_dict().items()}
    expected.append(hand.step(lambda: game(free=False)[1], "discriminator"))
    expected.append(hand.step(lambda: -game(free=True)[1], "curriculum"))
    F.load_state_dict(saved)  # the later steps do not touch F, not even its statistics
    assert losses == pytest.approx(expected, rel=1e-9)
    hand.assert_equals(found)


def test_the_manager_comes_to_prefer_images_the_discriminator_takes_for_target() -> None:
    states = fresh("extractor", "predictor", "discriminator", "curriculum")
    for _ in range(20):
        task = cmss.weigh_sources(sources=SOURCES, target=TARGET, adversarial_weight=0.1, **{**SGD, "lr": 0.2})
        states, _ = run(task, states)
    hand = ByHand(states)
    features = torch.cat([hand["extractor"](hand.x[s]) for s in SOURCES])
    missed = -hand["discriminator"](features)[:, 0].detach()
    scores = hand["curriculum"](features)[:, 0].detach()
    assert float(torch.corrcoef(torch.stack([missed, scores]))[0, 1]) > 0


# DSBN


def dsbn_states() -> dict[str, State]:
    parts = norms_of(DOMAINS, ("extractor", "predictor"))
    others = [f"centroids:{d}" for d in DOMAINS] + [f"discriminator:logits:{s}" for s in SOURCES]
    states = fresh("extractor", "predictor", *parts, *others)
    for number, part in enumerate(parts):  # every domain differs
        states[part]["norm.weight"] = states[part]["norm.weight"] + 0.1 * number
        states[part]["norm.bias"] = states[part]["norm.bias"] - 0.05 * number
    return states


def logits_of(hand: ByHand, domain: str) -> Tensor:
    """The network with the BatchNorm layers of a domain, written out."""
    h = hand.x[domain].flatten(1) @ hand["extractor"].full.weight.T + hand["extractor"].full.bias  # type: ignore[union-attr,operator]
    h = hand[f"norms:extractor:{domain}"].norm(h).relu()  # type: ignore[operator]
    h = h @ hand["predictor"].full.weight.T + hand["predictor"].full.bias  # type: ignore[union-attr,operator]
    return hand[f"norms:predictor:{domain}"].norm(h)  # type: ignore[operator,no-any-return]


def test_a_batch_of_dsbns_first_stage() -> None:
    weights = {"adversarial_weight": 0.2, "semantic_weight": 0.7, "rate": 0.3}
    states = dsbn_states()
    for d in DOMAINS:
        states[f"centroids:{d}"]["means"] = torch.randn(
            3, 3, generator=torch.Generator().manual_seed(ord(d)), dtype=torch.float64
        )
    modules = ("extractor", "predictor")
    found, losses = run(transfer_semantics(sources=SOURCES, target=TARGET, modules=modules, **weights, **SGD), states)

    hand = ByHand(states)
    learners = (*modules, *norms_of(DOMAINS, modules))
    near: dict[str, Tensor] = {}

    def game(logits: dict[str, Tensor]) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for s in SOURCES:
            source, target = (hand[f"discriminator:logits:{s}"](logits[d]) for d in (s, TARGET))
            total = total + (BCE(source, torch.ones_like(source)) + BCE(target, torch.zeros_like(target))) / 2
        return total / len(SOURCES)

    def adapt() -> Tensor:
        logits = {d: logits_of(hand, d) for d in DOMAINS}
        for d in DOMAINS:
            labels = hand.y[d] if d in hand.y else logits[d].argmax(dim=1)
            rows = []
            for k in range(3):
                old, members = hand[f"centroids:{d}"].means[k], logits[d][labels == k]  # type: ignore[index]
                rows.append(0.7 * old + 0.3 * members.mean(0) if len(members) else old)
            near[d] = torch.stack(rows)
        semantic = torch.stack([((near[s] - near[TARGET]) ** 2).mean() for s in SOURCES]).mean()
        task = torch.stack([CE(logits[s], hand.y[s]) for s in SOURCES]).mean()
        return task + 0.7 * semantic - 0.2 * game(logits)

    expected = [hand.step(adapt, *learners)]
    for d in DOMAINS:
        hand[f"centroids:{d}"].load_state_dict({"means": near[d].detach()})
    discriminators = [f"discriminator:logits:{s}" for s in SOURCES]
    expected.append(hand.step(lambda: game({d: logits_of(hand, d) for d in DOMAINS}), *discriminators))
    assert losses == pytest.approx(expected, rel=1e-9)
    hand.assert_equals(found)


def test_a_batch_of_dsbns_second_stage_on_pseudo_labels_that_stay() -> None:
    states, modules = dsbn_states(), ("extractor", "predictor")
    teacher = NETWORK.initial(9, torch.float64)
    states |= {f"{part}:teacher": teacher.parts[part] for part in modules}
    labelling = pseudo_label(target=TARGET, modules=modules, trust=0.25).work
    swept = sweep(labelling, bench(), data(), {part: states[part] for part in labelling.modules})  # type: ignore[arg-type]
    assert swept.parts == {}

    judge = {part: NETWORK.make(part).double().eval() for part in modules}
    x = ByHand(states).x[TARGET]
    opinions = []
    for view in (teacher.parts, seen_by(TARGET, states)):
        for part in modules:
            judge[part].load_state_dict(view[part])
        opinions.append(judge["predictor"](judge["extractor"](x)))
    guessed = (0.75 * opinions[0] + 0.25 * opinions[1]).argmax(dim=1)
    assert torch.equal(swept.rows["pseudo_label"], guessed)

    training = self_train(sources=SOURCES, target=TARGET, modules=modules, **SGD).work
    needed = {part: states[part] for part in training.modules}
    rows = {TARGET: swept.rows}
    done = fit(training, bench(), data(), needed, stream=STREAM, momentum={}, rows=rows)  # type: ignore[arg-type]
    hand = ByHand(needed)

    def learn() -> Tensor:
        task = torch.stack([CE(logits_of(hand, s), hand.y[s]) for s in SOURCES]).mean()
        return task + CE(logits_of(hand, TARGET), guessed)

    assert done.losses[0] == pytest.approx(hand.step(learn, *needed), rel=1e-9)
    hand.assert_equals(done.states)


def test_dsbn_goes_through_norms_where_there_are_any() -> None:
    assert normed(NETWORK) == ("extractor", "predictor")
    assert normed(Plain(classes=3, image_size=2)) == ()
    assert through("a", ("extractor",)) == ("@a", "extractor|norms:extractor:a", "predictor")


def test_dsbn_refuses_a_network_without_batchnorm() -> None:
    algorithm = dsbn.Dsbn(dsbn.Settings(), Training(), rounds=2)
    algorithm.check(NETWORK)
    with pytest.raises(ConfigError, match="BatchNorm layers of its own, but plain has none"):
        algorithm.check(Plain(classes=3, image_size=2))


@pytest.mark.parametrize("key", ["first_stage", "centroid_rate"])
@pytest.mark.parametrize("value", [0.0, -1.0, 1.5])
def test_dsbns_shares_are_shares(key: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"dsbn.{key}"):
        resolve({"benchmark": "toy", "algorithm": "dsbn", "dsbn": {key: value}})


# Rounds


def play(name: str, rounds: int, **values: Any) -> list[Any]:
    config = resolve({"benchmark": "toy", "device": "cpu", "algorithm": name, "rounds": rounds, **values})
    parts = assemble(config)
    model = parts.algorithm.start(parts.federation, parts.network.initial(0))
    outcomes = []
    for number in range(rounds):
        parts.federation.begin_round(number)
        outcomes.append(parts.algorithm.round(parts.federation, model))
        model = outcomes[-1].model
    return outcomes


def test_dsbn_teaches_itself_in_the_second_stage_with_a_teacher_that_rests() -> None:
    outcomes = play("dsbn", 4)
    assert [o.notes["stage"] for o in outcomes] == [1, 1, 2, 2]
    assert ["extractor:teacher" in o.model.parts for o in outcomes] == [False, False, True, True]
    teachers = [o.model.parts["extractor:teacher"] for o in outcomes[2:]]
    assert digest({"t": teachers[0]}) == digest({"t": teachers[1]})
    assert digest({"t": teachers[0]}) == digest({"t": outcomes[1].tested.parts["extractor"]})


def test_dsbn_goes_on_with_the_targets_layers_as_they_are_tested() -> None:
    outcome = play("dsbn", 1)[0]
    for part in ("norms:extractor:noisy", "norms:predictor:noisy"):
        layers, tested = outcome.model.parts[part], outcome.tested.parts[part.split(":")[1]]
        assert layers
        assert all(torch.equal(value, tested[name]) for name, value in layers.items())


@pytest.mark.parametrize("name", ["mdan", "cmss", "m3sda"])
def test_statistics_of_the_target_change_what_is_tested_and_not_what_is_trained(name: str) -> None:
    target, mixed = (play(name, 2, **{name: {"statistics": s}})[-1] for s in ("target", "mixed"))
    assert mixed.tested is None
    assert target.model.digest() == mixed.model.digest()
    for part, state in target.tested.parts.items():
        before = target.model.parts[part]
        moved = {key for key in state if not torch.equal(state[key], before[key])}
        assert moved
        assert all("running" in key or "tracked" in key for key in moved)


@pytest.mark.parametrize("name", ["mdan", "cmss"])
def test_the_adversary_grows_with_the_rounds(name: str) -> None:
    key = {"mdan": "mu", "cmss": "adversarial_weight"}[name]
    strengths = [o.notes[key] for o in play(name, 3, **{name: {key: 0.2}})]
    assert strengths == pytest.approx([0.2 * ramp(k / 3) for k in (1, 2, 3)])


def test_refreshing_moves_statistics_alone() -> None:
    model = Model(fresh("extractor", "predictor"))
    work = central.refresh(heads=["predictor"], batch_size=4).work
    done = fit(work, bench(), data().streams[TARGET], model.parts, stream=STREAM, momentum={})  # type: ignore[arg-type]
    for part, state in model.parts.items():
        moved = {name for name, value in state.items() if not torch.equal(value, done.states[part][name])}
        assert moved == {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}


@pytest.mark.parametrize("name", ["mdan", "m3sda", "cmss", "dsbn"])
def test_central_methods_say_that_they_are(name: str) -> None:
    assert algorithms.get(name).kind == "central"
    assert "all images" in algorithms.get(name).sends


def test_published_hyper_parameters_are_the_defaults_on_digits() -> None:
    run = resolve({"benchmark": "digit-five", "algorithm": "m3sda"})
    assert (run.rounds, run.training.lr, run.training.schedule, run.training.batch_size) == (30, 0.005, "cosine", 64)
    assert run.training.rate(15, 30) == pytest.approx(0.005 * (1 + 0.001) / 2)
    run = resolve({"benchmark": "digit-five", "algorithm": "fada"})
    assert (run.training.lr, run.training.momentum, run.settings.adversarial_weight) == (0.01, 0.0, 1.0)
    assert resolve({"benchmark": "mini", "algorithm": "fada"}).settings.adversarial_weight == 0.02
