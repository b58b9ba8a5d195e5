"""The configuration of a run: frozen dataclasses, from TOML and the command line, strict about keys and types.

Nothing here needs torch, so that a mistake is answered at once.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from galafed.bounds import at_least, check_device, known, share
from galafed.errors import ConfigError
from galafed.former import under_former_names, with_moved, without_later
from galafed.participation import Rule
from galafed.poison import Poison
from galafed.registry import unknown
from galafed.training import Training
from galafed.typed import build

if TYPE_CHECKING:
    from galafed.algorithms.base import Algorithm
    from galafed.benchmarks.base import Benchmark

MOST_THREADS = 1024
"""More than any machine has cores; of some ten thousand the system makes none, and torch ends without a word."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Everything that decides the outcome of one run."""

    benchmark: str = "mini"
    target: str = ""
    """The domain without labels; the benchmark's default if empty."""
    sources: tuple[str, ...] = ()
    """The labelled domains; all others if empty."""
    algorithm: str = "gala"
    network: str = ""
    """The benchmark's default if empty."""
    engine: str = "serial"
    rounds: int = 20
    seed: int = 0
    device: str = "auto"
    """cpu, cuda, cuda:1, …; auto takes a GPU where there is one."""
    precision: Literal["float32", "bfloat16", "float64"] = "float32"
    """bfloat16: products and convolutions in bfloat16; states, statistics, losses and averages stay in float32."""
    threads: int = 2
    """CPU threads of an operation; the same number gives the same bits."""
    max_clients_at_once: int = 0
    """How many clients the engine `stacked` trains together; 0 lets it choose what fits."""
    quorum: int = 1
    """How many sources must answer each question for a round to count."""
    timeout: float = 0.0
    """Seconds a client may take for a task; 0 waits for ever."""
    participation: float = 1.0
    """Share of the sources that take part in each round."""
    participation_by: Rule = "uniform"
    """How they are drawn: all alike, or by what is known of their relevance."""
    federation: str = ""
    """Folder of the federation whose sites do the work; of an engine that has sites."""
    evaluate_every: int = 1
    checkpoint_every: int = 1
    """Rounds between checkpoints; an interrupted run goes on from the last one. Large networks take long to write."""
    keep_checkpoints: int = 3
    selection: Literal["discrepancy", "entropy", "information"] = "discrepancy"
    """The label-free criterion that picks a round; where an algorithm measures no discrepancy, information is used."""
    training: Training = dataclasses.field(default_factory=Training)
    poison: Poison = dataclasses.field(default_factory=Poison)
    settings: Any = None
    """The algorithm's own switches; in TOML the table with the algorithm's name."""
    benchmark_settings: Any = None
    """The benchmark's own switches; in TOML the table with the benchmark's name."""

    def __post_init__(self) -> None:
        at_least("rounds", self.rounds, 1)
        at_least("seed", self.seed, 0)
        at_least("threads", self.threads, 1)
        if self.threads > MOST_THREADS:
            raise ConfigError(f"threads = {self.threads}: must be at most {MOST_THREADS}; more than cores help nobody")
        at_least("max_clients_at_once", self.max_clients_at_once, 0)
        at_least("quorum", self.quorum, 1)
        at_least("timeout", self.timeout, 0)
        share("participation", self.participation)
        at_least("evaluate_every", self.evaluate_every, 1)
        at_least("checkpoint_every", self.checkpoint_every, 1)
        at_least("keep_checkpoints", self.keep_checkpoints, 1)
        check_device("device", self.device)

    def to_dict(self) -> dict[str, Any]:
        """Plain nested values, with the algorithm's settings under its name."""
        values = dataclasses.asdict(self)
        tables = {self.algorithm: values.pop("settings"), self.benchmark: values.pop("benchmark_settings")}
        values["sources"] = list(self.sources)
        poison = values.pop("poison")
        if poison["sources"]:  # else a run is what it was before there was poison, down to its name
            values["poison"] = poison | {"sources": list(poison["sources"])}
        values |= {name: table for name, table in tables.items() if table}
        return without_later(values, kept=self._recommends)  # absent would mean recommended

    def _recommends(self, dotted: str) -> bool:
        """Whether the benchmark or, for benchmarks of its family, the method has a value of its own for a setting."""
        from galafed.algorithms.base import algorithms
        from galafed.benchmarks.base import benchmarks

        if self.algorithm not in algorithms.names() or self.benchmark not in benchmarks.names():
            return False
        benchmark = benchmarks.get(self.benchmark)
        return dotted in _recommended(benchmark, algorithms.get(self.algorithm), self.network)

    def hash(self) -> str:
        """A fingerprint of the whole configuration."""
        values = self.to_dict()
        values.pop("federation", None)  # where the sites are does not decide the outcome
        text = json.dumps(under_former_names(values, self.algorithm, self.training), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def run_name(self) -> str:
        """A folder name that tells runs apart: benchmark, target, algorithm, seed and fingerprint."""
        return f"{self.benchmark}-{self.target}-{self.algorithm}-s{self.seed}-{self.hash()[:8]}"


TABLES = ("settings", "benchmark_settings")


def resolve(values: Mapping[str, Any]) -> Run:
    """Check plain nested values (from TOML and the command line) and fill in the benchmark's recommendations."""
    from galafed.algorithms.base import algorithms
    from galafed.benchmarks.base import benchmarks
    from galafed.engines.base import engines
    from galafed.networks import names as network_names

    values = with_moved(values)
    fields = {field.name for field in dataclasses.fields(Run)} - {*TABLES}
    algorithm_name = _text(values, "algorithm", "gala")
    known("algorithm", algorithm_name, algorithms.names())
    benchmark_name = _text(values, "benchmark", "mini")
    known("benchmark", benchmark_name, benchmarks.names())
    for key in values:
        if key in (*algorithms.names(), *benchmarks.names()) and key not in (algorithm_name, benchmark_name):
            raise ConfigError(
                f"[{key}] holds settings of {key}, but the run is {algorithm_name} on {benchmark_name}: remove it"
            )
        if key not in fields and key not in (algorithm_name, benchmark_name):
            raise ConfigError(unknown("key", key, tuple(sorted(fields | {algorithm_name, benchmark_name}))))
    benchmark_class = benchmarks.get(benchmark_name)
    opened: Any = build(benchmark_class.Settings, values.get(benchmark_name, {}), f"{benchmark_name}.")
    benchmark = benchmark_class(opened)
    algorithm_class = algorithms.get(algorithm_name)
    defaults = _recommended(benchmark, algorithm_class, _text(values, "network", ""))
    merged = _with_defaults(values, defaults, {*fields, algorithm_name})
    merged.pop(benchmark_name, None)

    settings: Any = build(algorithm_class.Settings, merged.pop(algorithm_name, {}), f"{algorithm_name}.")
    run = build(Run, merged, "", skip=TABLES)
    run = dataclasses.replace(run, settings=settings, benchmark_settings=opened)
    target = run.target or benchmark.default_target
    known("target", target, benchmark.domains)
    for source in run.sources:
        known("sources", source, benchmark.domains)
    if target in run.sources:
        raise ConfigError(f"sources: {target!r} is the target; a domain cannot be both. Remove it from one of the two")
    if len(set(run.sources)) < len(run.sources):
        raise ConfigError(f"sources: a domain is named twice in {', '.join(run.sources)}")
    sources = tuple(sorted(run.sources)) or tuple(sorted(set(benchmark.domains) - {target}))
    for source in run.poison.sources:
        known("poison.sources", source, sources)
    if run.quorum > len(sources):
        raise ConfigError(f"quorum = {run.quorum}: must be at most {len(sources)}, the number of sources")
    known("engine", run.engine, engines.names())
    if run.federation and not engines.get(run.engine).federated:
        raise ConfigError(
            f"federation = {run.federation!r}: the engine {run.engine!r} has no sites and would do the work here; name "
            "one that has (gala ls engines), or leave the federation out"
        )
    network = run.network or defaults.get("network", benchmark.network)
    known("network", network, network_names())
    algorithm = algorithm_class(settings, run.training, rounds=run.rounds)
    if len(sources) < algorithm.fewest_sources:
        raise ConfigError(
            f"{algorithm_name} needs at least {algorithm.fewest_sources} sources, and the run has "
            f"{len(sources)} ({', '.join(sources)}): name more under sources, or take another algorithm"
        )
    if algorithm.pools_sources and engines.get(run.engine).federated:
        raise ConfigError(
            f"{algorithm_name} puts the data of all domains in one place, and the engine {run.engine!r} leaves it at "
            "the sites: take the engine 'serial', or a federated algorithm (gala ls algorithms)"
        )
    if algorithm.needs_two_sources and len(sources) < 2 and engines.get(run.engine).federated:
        raise ConfigError(
            f"{algorithm_name} needs two sources, and a site's images cannot be cut in two from here: name another "
            "source, or take the engine 'serial'"
        )
    return dataclasses.replace(run, target=target, sources=sources, network=network)


def _recommended(
    benchmark: Benchmark | type[Benchmark], algorithm: type[Algorithm[Any]], network: str
) -> dict[str, Any]:
    """What a benchmark recommends, for the network of this run, and a method for benchmarks of this family."""
    methods_own = algorithm.recommended.get(benchmark.family, {})
    network = network or methods_own.get("network", benchmark.network)
    return {**benchmark.defaults, **benchmark.suited.get(network, {}), **methods_own}


def _with_defaults(values: Mapping[str, Any], defaults: Mapping[str, Any], keys: set[str]) -> dict[str, Any]:
    """The user's values over the benchmark's recommendations for the tables this run has."""
    merged = {key: dict(value) if isinstance(value, Mapping) else value for key, value in values.items()}
    for dotted, value in defaults.items():
        table, _, key = dotted.rpartition(".")
        if table and table in keys:
            section = merged.setdefault(table, {})
            if isinstance(section, dict):
                section.setdefault(key, value)
        elif not table:
            merged.setdefault(key, value)
    return merged


def read_toml(path: Path) -> dict[str, Any]:
    """The values of a configuration file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); give the path of a TOML file") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: is not valid TOML ({error})") from None


def set_value(values: dict[str, Any], assignment: str) -> None:
    """Apply one "key=value" or "table.key=value"; the value is read as TOML, or else as text."""
    dotted, equals, text = assignment.partition("=")
    if not equals or not dotted.strip():
        raise ConfigError(f"--set {assignment}: write it as key=value, for example gala.tau=0.5")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--set {dotted}: its value cannot be read ({error})") from None
    *tables, key = dotted.strip().split(".")
    place = values
    for table in tables:
        place = place.setdefault(table, {})
        if not isinstance(place, dict):
            raise ConfigError(f"--set {assignment}: {table} is not a table")
    place[key] = value


def _text(values: Mapping[str, Any], key: str, default: str) -> str:
    value = values.get(key, default)
    if not isinstance(value, str):
        raise ConfigError(f"{key} = {value!r}: must be a text")
    return value
