"""The configuration: strict about keys and types, complete in its fingerprint, layered in one known order."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import tomllib
import typing
from pathlib import Path
from typing import Any, Literal

import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from galafed import cli
from galafed.algorithms.base import algorithms
from galafed.benchmarks.base import benchmarks
from galafed.config import MOST_THREADS, Run, read_toml, resolve, set_value
from galafed.errors import ConfigError
from galafed.former import as_it_was
from galafed.poison import Poison
from galafed.training import Training

TOY = {"benchmark": "toy"}
TABLES = ("settings", "benchmark_settings")
TOP = [field.name for field in dataclasses.fields(Run) if field.name not in TABLES]


def refusal(values: dict[str, Any]) -> str:
    """The message with which a configuration is refused."""
    with pytest.raises(ConfigError) as caught:
        resolve(TOY | values)
    return str(caught.value)


def test_the_default_is_gala_on_mini() -> None:
    run = resolve({})
    assert (run.benchmark, run.algorithm, run.engine) == ("mini", "gala", "serial")
    assert run.target == benchmarks.get("mini").default_target
    assert set(run.sources) == set(benchmarks.get("mini").domains) - {run.target}
    assert run.network


def test_a_configuration_is_frozen() -> None:
    run = resolve(TOY)
    for part, name in ((run, "seed"), (run.training, "lr"), (run.settings, "tau")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(part, name, 1)


# ---------------------------------------------------------------------------------------------------- unknown keys


@pytest.mark.parametrize(
    ("values", "key", "hint"),
    [
        ({"sede": 1}, "sede", "seed"),
        ({"round": 1}, "round", "rounds"),
        ({"trainings": {}}, "trainings", "training"),
        ({"settings": {}}, "settings", None),
        ({"": 1}, "''", None),
        ({"training": {"lrr": 0.1}}, "training.lrr", "training.lr"),
        ({"training": {"batchsize": 3}}, "training.batchsize", "training.batch_size"),
        ({"gala": {"tua": 1.0}}, "gala.tua", "gala.tau"),
        ({"gala": {"igd_scal": 1.0}}, "gala.igd_scal", "gala.igd_scale"),
        ({"algorithm": "fact", "fact": {"two_head": True}}, "fact.two_head", "fact.two_heads"),
        ({"algorithm": "oracle", "oracle": {"anything": 1}}, "oracle.anything", None),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_one(values: dict[str, Any], key: str, hint: str | None) -> None:
    message = refusal(values)
    assert key in message
    assert "not known" in message
    if hint:
        assert f"Did you mean '{hint}'?" in message


def test_an_unknown_top_key_lists_every_accepted_one() -> None:
    message = refusal({"xyzzy": 1})
    assert all(key in message for key in [*TOP, "gala"])


@pytest.mark.parametrize("key", ["algorithm", "benchmark", "target", "engine", "network"])
def test_an_unknown_name_lists_what_is_accepted(key: str) -> None:
    accepted = {
        "algorithm": algorithms.names(),
        "benchmark": benchmarks.names(),
        "target": benchmarks.get("toy").domains,
        "engine": ("serial",),
        "network": ("digit_cnn", "small_cnn"),
    }[key]
    near = accepted[0][:-1]
    message = refusal({key: near})
    assert message.startswith(f"{key} {near!r}")
    assert f"Did you mean '{accepted[0]}'?" in message
    assert all(name in message for name in accepted)
    assert key in refusal({key: "zzzzzzzzzz"})


def test_an_unknown_source_and_a_source_that_is_the_target_are_refused() -> None:
    assert "'brihgt'" in (message := refusal({"sources": ["brihgt"]}))
    assert "'bright'" in message
    for values in ({"target": "dark", "sources": ["bright", "dark"]}, {"sources": ["noisy", "dark"]}):
        message = refusal(values)
        assert message.startswith("sources")
        assert "target" in message
    assert "twice" in refusal({"sources": ["bright", "bright"]})


@pytest.mark.parametrize(("algorithm", "other"), [("gala", "fact"), ("fact", "gala"), ("oracle", "source_only")])
def test_settings_of_another_algorithm_are_refused(algorithm: str, other: str) -> None:
    message = refusal({"algorithm": algorithm, other: {}})
    assert other in message
    assert algorithm in message


# ----------------------------------------------------------------------------------------------------- wrong types

JUNK: dict[str, list[Any]] = {
    "bool": [1, 0, "true", 1.0, [], {}],
    "int": [True, 1.0, "3", [3], {}, 2.5],
    "float": [True, "0.1", [0.1], {}],
    "str": [1, True, 1.5, [], ["x"], {}],
    "literal": [1, True, "", "Discrepancy", [], {}],
    "tuple": ["bright", 3, True, [1], [["bright"]], {}],
    "table": [1, "x", [], True, [{}]],
}


def kind(hint: Any) -> str:
    """What junk suits a field."""
    if dataclasses.is_dataclass(hint):
        return "table"
    if typing.get_origin(hint) is not None:
        return "literal" if typing.get_origin(hint) is Literal else "tuple"
    return str(hint.__name__)


def every_setting() -> list[tuple[str, str, Any]]:
    """(algorithm, dotted key, type) of every setting there is."""
    found = [("gala", name, hint) for name, hint in typing.get_type_hints(Run).items() if name in TOP]
    found += [("gala", f"training.{name}", hint) for name, hint in typing.get_type_hints(Training).items()]
    for algorithm in algorithms.names():
        hints = typing.get_type_hints(algorithms.get(algorithm).Settings)
        found += [(algorithm, f"{algorithm}.{name}", hint) for name, hint in hints.items()]
    return found


SETTINGS = every_setting()


def with_value(algorithm: str, dotted: str, value: Any) -> dict[str, Any]:
    """A toy configuration with one setting."""
    table, _, key = dotted.rpartition(".")
    values: dict[str, Any] = TOY | {"algorithm": algorithm}
    return values | ({table: {key: value}} if table else {key: value})


@pytest.mark.parametrize(("algorithm", "dotted", "hint"), SETTINGS, ids=[name for _, name, _ in SETTINGS])
def test_a_wrong_type_of_any_setting_is_refused_by_name(algorithm: str, dotted: str, hint: Any) -> None:
    for junk in JUNK[kind(hint)]:
        with pytest.raises(ConfigError) as caught:
            resolve(with_value(algorithm, dotted, junk))
        assert dotted in str(caught.value), junk


def test_a_literal_lists_its_values() -> None:
    for algorithm, dotted, hint in SETTINGS:
        if kind(hint) == "literal":
            with pytest.raises(ConfigError) as caught:
                resolve(with_value(algorithm, dotted, "something else"))
            assert str(caught.value).startswith(f"{dotted} = 'something else'")
            assert all(value in str(caught.value) for value in typing.get_args(hint))
            for value in typing.get_args(hint):
                resolve(with_value(algorithm, dotted, value))


def test_a_whole_number_is_a_number() -> None:
    run = resolve(TOY | {"training": {"lr": 1}, "gala": {"tau": 2}})
    assert (run.training.lr, run.settings.tau) == (1.0, 2.0)
    assert isinstance(run.training.lr, float)


@pytest.mark.parametrize(
    ("values", "key"),
    [
        *(({"gala": {"tau": tau}}, "gala.tau") for tau in (0, 0.0, -1, -1e-9, float("nan"), float("inf"))),
        *(({"training": {"lr": lr}}, "training.lr") for lr in (0, -0.1, float("nan"), float("inf"))),
        ({"training": {"momentum": 1.0}}, "training.momentum"),
        ({"training": {"momentum": -0.1}}, "training.momentum"),
        ({"training": {"weight_decay": -1}}, "training.weight_decay"),
        ({"training": {"batch_size": 1}}, "training.batch_size"),
        ({"training": {"epochs": 0}}, "training.epochs"),
        ({"training": {"decay": 0}}, "training.decay"),
        ({"training": {"extractor_rate": 0}}, "training.extractor_rate"),
        ({"training": {"extractor_rate": -0.5}}, "training.extractor_rate"),
        ({"algorithm": "fact", "fact": {"idd_scale": 0}}, "fact.idd_scale"),
        ({"gala": {"igd_scale": -1}}, "gala.igd_scale"),
        ({"rounds": 0}, "rounds"),
        ({"seed": -1}, "seed"),
        ({"threads": 0}, "threads"),
        ({"threads": 100_000}, "threads"),
        ({"quorum": 0}, "quorum"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"evaluate_every": 0}, "evaluate_every"),
        ({"keep_checkpoints": 0}, "keep_checkpoints"),
        ({"checkpoint_every": 0}, "checkpoint_every"),
        ({"device": "gpu"}, "device"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(values: dict[str, Any], key: str) -> None:
    message = refusal(values)
    assert message.startswith(f"{key} = ")
    assert "must be" in message or "accepted" in message


@pytest.mark.parametrize(
    "values", [{"seed": 10**400}, {"rounds": -(10**400)}, {"training": {"lr": 10**400}}, {"gala": {"tau": 10**400}}]
)
def test_a_number_beyond_every_bound_is_refused_or_taken_but_never_crashes(values: dict[str, Any]) -> None:
    with contextlib.suppress(ConfigError):
        resolve(TOY | values)


# ---------------------------------------------------------------------------------------------- random nested junk

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["gala", "fact", "toy", "mini", "noisy", "bright", "cpu", "serial", "small_cnn", "float64"])
)
names = st.text(max_size=8) | st.sampled_from(
    [*TOP, "settings", "gala", "fact", "oracle", "source_only", "lr", "tau", "batch_size", "relevance", "igd"]
)
junk = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(names, junk, max_size=5))
@settings(max_examples=400, suppress_health_check=list(HealthCheck))
def test_junk_is_refused_with_a_sentence_and_nothing_else(values: dict[str, Any]) -> None:
    with contextlib.suppress(ConfigError):
        assert isinstance(resolve(values), Run)


@given(st.lists(st.text(max_size=20) | st.tuples(names, st.text(max_size=12)).map("=".join), max_size=4))
@settings(max_examples=300)
def test_junk_after_set_is_refused_with_a_sentence_and_nothing_else(assignments: list[str]) -> None:
    values: dict[str, Any] = {}
    with contextlib.suppress(ConfigError):
        for assignment in assignments:
            set_value(values, assignment)
        resolve(values)


@pytest.mark.parametrize("text", ["1" * 5000, "[" * 5000])
def test_an_absurd_value_after_set_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ConfigError):
        cli.run("toy", settings=(f"seed={text}",))


# ------------------------------------------------------------------------------------------- round trip, fingerprint


def valid(hint: Any) -> st.SearchStrategy[Any]:
    """Values in range for any setting of a type."""
    if kind(hint) == "literal":
        return st.sampled_from(typing.get_args(hint))
    return {"bool": st.booleans(), "int": st.integers(2, 10**9), "float": st.floats(1e-6, 0.999)}[kind(hint)]


@st.composite
def configurations(draw: st.DrawFn) -> Run:
    """Any valid configuration on toy."""
    algorithm = draw(st.sampled_from(algorithms.names()))
    fewest = algorithms.get(algorithm).fewest_sources
    target = draw(st.sampled_from(benchmarks.get("toy").domains))
    others = [name for name in benchmarks.get("toy").domains if name != target]
    values: dict[str, Any] = TOY | {
        "algorithm": algorithm,
        "target": target,
        "sources": draw(
            st.lists(st.sampled_from(others), unique=True).filter(lambda names: not names or len(names) >= fewest)
        ),
        "device": draw(st.sampled_from(["auto", "cpu", "cuda", "cuda:1"])),
    }
    most = {"threads": MOST_THREADS, "quorum": len(values["sources"] or others)}
    for owner, dotted, hint in SETTINGS:
        table, _, key = dotted.rpartition(".")
        suits = owner == algorithm or not table or table == "training"
        if suits and kind(hint) in ("bool", "int", "float", "literal") and draw(st.booleans()):
            place = values.setdefault(table, {}) if table else values
            value = draw(valid(hint))
            place[key] = min(value, most[key]) if key in most else value
    return resolve(values)


@given(configurations())
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
def test_a_configuration_survives_toml(run: Run) -> None:
    again = resolve(tomllib.loads(tomli_w.dumps(run.to_dict())))
    assert again == resolve(as_it_was(run.to_dict())) == run
    assert again.hash() == run.hash()
    assert again.run_name == run.run_name


def another(hint: Any, value: Any) -> Any:
    """A different value of the same type."""
    if kind(hint) == "literal":
        return next(choice for choice in typing.get_args(hint) if choice != value)
    if kind(hint) == "tuple":
        return value[:-1]
    return {"bool": lambda: not value, "int": lambda: value + 1, "float": lambda: value / 2 + 0.125}.get(
        kind(hint), lambda: f"cuda:7{value}"
    )()


def test_a_quorum_that_no_round_could_reach_is_refused() -> None:
    sources = len(resolve(TOY).sources)
    assert resolve(TOY | {"quorum": sources}).quorum == sources
    with pytest.raises(ConfigError, match=f"quorum = {sources + 1}: must be at most {sources}"):
        resolve(TOY | {"quorum": sources + 1})


def test_a_federation_whose_sites_would_do_nothing_is_refused() -> None:
    for engine in ("serial", "stacked"):
        with pytest.raises(ConfigError, match=f"federation = 'consortium': the engine '{engine}' has no sites"):
            resolve(TOY | {"engine": engine, "federation": "consortium"})
    assert resolve(TOY | {"engine": "nvflare", "federation": "consortium"}).federation == "consortium"


@pytest.mark.parametrize("algorithm", algorithms.names())
def test_every_setting_changes_the_fingerprint(algorithm: str) -> None:
    run = resolve(TOY | {"algorithm": algorithm})
    hashes = {"as it is": run.hash()}
    for name, hint in typing.get_type_hints(Run).items():
        if name not in (*TABLES, "training", "device", "poison", "federation"):
            hashes[name] = dataclasses.replace(run, **{name: another(hint, getattr(run, name))}).hash()
    hashes["device"] = dataclasses.replace(run, device="cpu").hash()
    hashes["poison"] = dataclasses.replace(run, poison=Poison(sources=("dark",))).hash()
    for part, table in (("training", run.training), ("settings", run.settings)):
        for name, hint in typing.get_type_hints(type(table)).items():
            changed = dataclasses.replace(table, **{name: another(hint, getattr(table, name))})
            hashes[f"{part}.{name}"] = dataclasses.replace(run, **{part: changed}).hash()
    assert len(set(hashes.values())) == len(hashes)
    assert dataclasses.replace(run, federation="elsewhere").hash() == run.hash()  # where, not what
    assert len(hashes) == len(TOP) - 1 + len(dataclasses.fields(Training)) + len(dataclasses.fields(type(run.settings)))


def test_the_order_of_sources_does_not_matter() -> None:
    one, two = resolve(TOY | {"sources": ["dark", "bright"]}), resolve(TOY | {"sources": ["bright", "dark"]})
    assert one == two
    assert one.hash() == two.hash()


def test_the_name_of_a_run_tells_what_it_is() -> None:
    run = resolve(TOY | {"seed": 7})
    assert run.run_name == f"toy-noisy-gala-s7-{run.hash()[:8]}"


# ------------------------------------------------------------------------------------------------------ precedence


class StoppedHere(Exception):
    """Carries the configuration that would have been run."""


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Call the verb `run` and give back the configuration it arrives at."""

    def stop(config: Run, *rest: Any, **more: Any) -> None:
        raise StoppedHere(config)

    monkeypatch.setattr("galafed.runs.runner.start", stop)

    def ask(*arguments: str, toml: str = "", **flags: Any) -> Run:
        if toml:
            (tmp_path / "file.toml").write_text(toml)
            flags["config"] = tmp_path / "file.toml"
        with pytest.raises(StoppedHere) as caught:
            cli.run(*arguments, out=tmp_path / "run", **flags)
        return typing.cast(Run, caught.value.args[0])

    return ask


def test_each_layer_wins_over_the_one_before(resolved: Any) -> None:
    toml = "rounds = 5\nseed = 3\n[training]\nlr = 0.5\n[gala]\ntau = 3\nigd = false\n"
    assert Run().rounds == 20
    assert resolved("toy").rounds == 3, "the benchmark's recommendation"
    assert resolved("toy", toml=toml).rounds == 5
    assert resolved("toy", toml=toml, rounds="7").rounds == 7
    assert resolved("toy", toml=toml, rounds="7", settings=("rounds=9",)).rounds == 9
    assert resolved("toy", toml=toml, settings=("rounds=9", "rounds=11")).rounds == 11
    run = resolved("toy", toml=toml, settings=("gala.tau=4", "training.momentum=0.25"))
    assert (run.seed, run.settings.tau, run.settings.igd) == (3, 4.0, False)
    assert (run.training.lr, run.training.momentum, run.training.batch_size) == (0.5, 0.25, 16)


def test_the_benchmark_of_the_command_line_wins_and_brings_its_recommendations(resolved: Any) -> None:
    assert resolved("toy", toml='benchmark = "mini"').benchmark == "toy"
    assert resolved(toml='benchmark = "toy"').training.lr == benchmarks.get("toy").defaults["training.lr"]


def test_settings_of_the_algorithm_named_in_the_file_give_way_to_another_algorithm(resolved: Any) -> None:
    toml = 'algorithm = "fact"\n[fact]\nidd_scale = 2.0\n'
    assert resolved("toy", toml=toml).settings.idd_scale == 2.0
    assert resolved("toy", toml=toml, algorithm="gala").algorithm == "gala"
    with pytest.raises(ConfigError, match="gala"):
        cli.run("toy", algorithm="fact", settings=("gala.tau=2",))


def test_an_algorithm_of_a_wrong_type_in_the_file_is_refused_even_beside_a_flag(tmp_path: Path) -> None:
    (tmp_path / "file.toml").write_text("algorithm = ['gala']\n")
    with pytest.raises((ConfigError, StoppedHere)):
        cli.run("toy", algorithm="nope", config=tmp_path / "file.toml", out=tmp_path / "run")


def test_values_after_set_are_read_as_toml_or_else_as_text(resolved: Any) -> None:
    run = resolved("toy", settings=('sources=["dark", "bright"]', "target=faint", "gala.igd=false", "device='cpu'"))
    assert run.sources == ("bright", "dark")
    assert (run.target, run.settings.igd, run.device) == ("faint", False, "cpu")


@pytest.mark.parametrize("text", ["tau", "=1", " = 1", ""])
def test_an_assignment_without_a_key_or_a_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="key=value"):
        set_value({}, text)


def test_a_plain_setting_is_no_table() -> None:
    values: dict[str, Any] = {}
    set_value(values, "seed=1")
    with pytest.raises(ConfigError, match="seed is not a table"):
        set_value(values, "seed.x=1")


@pytest.mark.parametrize("content", [b"rounds = ", b"\xff\xfe", b"a = 1\na = 2\n", b"[gala\n"])
def test_a_file_that_is_not_toml_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"bad\.toml.*not valid TOML"):
        read_toml(path)
    with pytest.raises(ConfigError, match=r"none\.toml"):
        read_toml(tmp_path / "none.toml")


def test_a_setting_that_came_later_does_not_rename_the_runs_before_it() -> None:
    lines = (Path(__file__).parent.parent / "results" / "traffic" / "runs.jsonl").read_text().splitlines()
    (before,) = (run for run in map(json.loads, lines) if run["algorithm"] == "fact" and len(run["sources"]) == 5)
    assert resolve(before["config"]).hash() == before["config_hash"]
    changed = resolve({**before["config"], "fact": {"train_all": True}})
    assert changed.to_dict()["fact"]["train_all"] is True
    assert changed.hash() != before["config_hash"]


def test_extractor_rate_is_told_only_where_it_changes_something() -> None:
    usual, slow = (resolve(TOY | {"training": {"extractor_rate": rate}}) for rate in (1.0, 0.5))
    assert "extractor_rate" not in usual.to_dict()["training"]
    assert usual.hash() == resolve(TOY).hash()
    assert slow.to_dict()["training"]["extractor_rate"] == 0.5
    assert slow.hash() != usual.hash()


@pytest.mark.parametrize("algorithm", ["shot", "sfda"])
@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_a_setting_under_its_former_name_means_what_it_meant(algorithm: str, rate: float) -> None:
    old = with_value(algorithm, f"{algorithm}.extractor_rate", rate)
    run = resolve(old)
    assert run == resolve(with_value(algorithm, "training.extractor_rate", rate))
    assert old == with_value(algorithm, f"{algorithm}.extractor_rate", rate)  # as it was given


@pytest.mark.parametrize("rate", [1.0, 0.1, 0.5])
def test_a_configuration_survives_where_a_method_recommends_another_value(rate: float) -> None:
    run = resolve({"algorithm": "shot", "benchmark": "office-caltech10", "training": {"extractor_rate": rate}})
    assert resolve(run.to_dict()) == run


def test_a_configuration_survives_where_a_benchmark_recommends_another_value(monkeypatch: pytest.MonkeyPatch) -> None:
    office = benchmarks.get("office-caltech10")
    monkeypatch.setattr(office, "defaults", {**office.defaults, "training.extractor_rate": 0.1})
    assert resolve({"benchmark": "office-caltech10"}).training.extractor_rate == 0.1
    run = resolve({"benchmark": "office-caltech10", "training": {"extractor_rate": 1.0}})
    assert resolve(run.to_dict()) == run


@pytest.mark.parametrize("network", ["efficientnet_lite0", "resnet101"])
def test_what_suits_one_network_is_not_recommended_for_another(network: str) -> None:
    office = {"benchmark": "office-caltech10"}
    fixed = [office | {"network": f"efficientnet_lite{number}_fixed"} for number in (0, 2)]
    for usual in (office, office | {"network": ""}, *fixed):
        assert resolve(usual).training.extractor_rate == 0.1
    other = resolve(office | {"network": network})
    assert (other.training.extractor_rate, other.training.lr) == (1.0, 0.02)
    for run in (other, resolve(office), resolve(office | {"training": {"extractor_rate": 1.0}})):
        assert resolve(run.to_dict()) == run
    assert "extractor_rate" not in other.to_dict()["training"]  # so it keeps the name it had


@pytest.mark.parametrize("given", [{}, {"network": ""}])
def test_dsbn_has_layers_whose_statistics_it_can_gather(given: dict[str, str]) -> None:
    run = resolve({"benchmark": "office-caltech10", "algorithm": "dsbn"} | given)
    assert (run.network, run.training.extractor_rate) == ("efficientnet_lite0", 1.0)
    assert (
        resolve({"benchmark": "office-caltech10", "algorithm": "dsbn", "network": "resnet101"}).network == "resnet101"
    )
    assert resolve({"algorithm": "dsbn"}).network == "small_cnn"


@pytest.mark.parametrize("algorithm", ["shot", "sfda"])
@pytest.mark.parametrize(("benchmark", "rate"), [("office-caltech10", 0.1), ("digit-five", 1.0)])
def test_shot_slows_pretrained_extractors_down(algorithm: str, benchmark: str, rate: float) -> None:
    assert resolve({"algorithm": algorithm, "benchmark": benchmark}).training.extractor_rate == rate


def archived(study: str, algorithm: str = "") -> list[dict[str, Any]]:
    """What is committed of a study's runs, or of those of one algorithm."""
    lines = (Path(__file__).parent.parent / "results" / study / "runs.jsonl").read_text().splitlines()
    found = [run for run in map(json.loads, lines) if algorithm in ("", run["algorithm"])]
    assert found
    return found


@pytest.mark.parametrize("algorithm", ["shot", "sfda"])
def test_runs_of_methods_whose_settings_have_moved_keep_their_names(algorithm: str) -> None:
    for summary in archived("digit-five-first", algorithm):
        config, settings = summary["config"], summary["config"][algorithm]
        assert ("extractor_rate" in settings) == (algorithm == "shot")
        assert settings["means_of"] == "features"
        unsaid = config | {algorithm: {key: value for key, value in settings.items() if key != "means_of"}}
        for same in (config, unsaid):
            run = resolve(as_it_was(same))
            assert run.settings.means_of == "features"
            assert run.hash() == summary["config_hash"]
        assert resolve(unsaid).settings.means_of == "hidden"
        hidden = config | {algorithm: settings | {"means_of": "hidden"}}
        assert resolve(as_it_was(hidden)).hash() != summary["config_hash"]


def data(run: Run) -> tuple[str, str]:
    """Which digits a run has."""
    return run.benchmark_settings.syn, run.benchmark_settings.usps


@pytest.mark.parametrize(("study", "benchmark"), [("digit-five-first", "digit-five"), ("digit-18-first", "digit-18")])
def test_runs_that_do_not_tell_of_their_digits_have_those_of_then_and_keep_their_names(
    study: str, benchmark: str
) -> None:
    before = [each for each in archived(study) if "syn" not in each["config"].get(benchmark, {})]
    assert before
    for summary in before:
        told = json.dumps(summary["config"])
        run = resolve(as_it_was(summary["config"]))
        assert json.dumps(summary["config"]) == told
        assert data(run) == ("wild", "original")
        assert run.hash() == summary["config_hash"]
        own = resolve(summary["config"])  # what somebody asks for today
        assert data(own) == ("legible", "shuffled")
        assert own.hash() != summary["config_hash"]


@pytest.mark.parametrize("benchmark", ["digit-five", "digit-18"])
def test_a_configuration_of_today_tells_which_digits_it_has(benchmark: str) -> None:
    editions = [{"syn": syn, "usps": usps} for syn in ("legible", "wild") for usps in ("shuffled", "original")]
    runs = [resolve({"benchmark": benchmark, benchmark: edition}) for edition in editions]
    assert resolve({"benchmark": benchmark}) == runs[0]
    assert len({run.hash() for run in runs}) == 4
    for run, edition in zip(runs, editions, strict=True):
        assert edition.items() <= run.to_dict()[benchmark].items()
        assert resolve(as_it_was(run.to_dict())) == run


def test_what_was_written_down_of_other_benchmarks_is_left_as_it_is() -> None:
    values = resolve(TOY).to_dict()
    assert as_it_was(values) == values
    with pytest.raises(ConfigError, match="digit-five"):
        resolve(as_it_was({"benchmark": "digit-five", "digit-five": 3}))
