"""IGD against IDD as estimators: the paper's two toys, its claims 8, 8/M and 1/M, and the heads of real runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any, ClassVar

from galafed.bounds import at_least, between
from galafed.config import resolve
from galafed.reproduction.measurement import Measurement, Record, Unit, archived
from galafed.reproduction.pages import as_json, grid, listed, machines, page, table_cell, write_files
from galafed.reproduction.panels import picture
from galafed.runs.seeding import generator
from galafed.studies.base import studies

if TYPE_CHECKING:
    import torch
    from matplotlib.axes import Axes

TOYS = {"uniform": "h_i(x) ~ Unif[0, 1]", "own means": "μ_i ~ Unif[θ, 1-θ], h_i(x) ~ Unif[μ_i-θ, μ_i+θ]"}
IGD = ("IGD, parameters averaged", "IGD, outputs averaged")
EXACT, ABOUT = 1e-9, 0.1
"""A deviation that rounding explains, and one with which a figure is right approximately."""
SMALL_BIAS = 0.1
"""The share of the mean that may be missing for a bias to be called small."""
PANELS = ("variance", "mean", "variance / mean²")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The toys' size, and the run whose heads are looked at."""

    halves: tuple[int, ...] = (2, 4, 8)
    """M of the toys: two groups of M heads."""
    theta: float = 0.1
    """θ of the second toy, which the paper does not tell."""
    points: int = 200
    """Target points x of a toy."""
    populations: int = 50
    """How many sets of heads a toy is averaged over."""
    benchmark: str = "mini"
    target: str = ""
    """The benchmark's default if empty."""
    rounds: int = 10
    """The heads are those of this round."""
    seeds: tuple[int, ...] = (0, 1, 2)
    images: int = 512
    """Target images that losses and gradients are means over."""
    draws: int = 200
    """Random splits where there are more than this many."""

    def __post_init__(self) -> None:
        between("theta", self.theta, 0, 0.5)
        for count in self.halves:
            at_least("halves", count, 2)
        for key in ("points", "populations", "rounds", "images", "draws"):
            at_least(key, getattr(self, key), 2 if key == "images" else 1)


@studies.register("variance")
class VarianceStudy(Measurement):
    """Exact over all pairs and all splits where these can be listed."""

    title: ClassVar[str] = "Does IGD have a lower variance than IDD? (its appendix on the estimators)"
    Settings = Settings

    def units(self, device: str) -> Sequence[Unit]:
        """A toy with M, or the heads of one run."""
        mine: Settings = self.settings
        toy = {"points": mine.points, "populations": mine.populations}
        toys = [
            Unit(f"toy {name}, M = {half}", {"toy": name, "M": half, **toy, **_theta(name, mine.theta)})
            for name in TOYS
            for half in mine.halves
        ]
        target = mine.target or resolve({"benchmark": mine.benchmark}).target
        heads = {"benchmark": mine.benchmark, "target": target, "rounds": mine.rounds}
        heads |= {"images": mine.images, "draws": mine.draws}
        return toys + [Unit(f"heads of {target}, seed {seed}", {**heads, "seed": seed}) for seed in mine.seeds]

    def measure(self, unit: Unit, device: torch.device) -> Mapping[str, Any]:
        """The spreads of one toy, or of the heads of one run."""
        if "toy" not in unit.settings:
            return _heads(unit.settings, device)
        from galafed.reproduction.estimators import toy

        mine = unit.settings
        rng = generator("variance", mine["toy"], mine["M"])
        return toy(mine["M"], mine["points"], mine["populations"], rng, theta=mine.get("theta"))

    def write(self, folder: Path, records: Sequence[Record], *, command: str) -> Sequence[Path]:
        """Both tables, the picture and the verdict; heads of other runs that were measured before are shown too."""
        every = archived(folder).values() or records
        toys = [_toy_row(record) for record in records if "toy" in record["settings"]]
        heads = _head_rows([record for record in every if "toy" not in record["settings"]])
        intro = (
            f"Made by `{command}` at commit {records[-1]['commit']} on {machines(records)}. IDD takes a random pair of "
            "N = 2M predictors, IGD a random split into halves of M. Means and variances are over all pairs and all "
            "splits, listed, or over random splits where there are too many; nothing else is random."
        )
        first = (
            f"{'; '.join(f'*{name}*: {words}' for name, words in TOYS.items())}; θ = {self.settings.theta:g} is our "
            "choice. *Signed* is the quantity of the paper's proof, E_x[2(h̄_G1 - h̄_G2)], over σ², the variance of "
            "E_x h_k over heads; in brackets the paper's approximation. The *loss* has the absolute value inside, as "
            "Eq. 3 and 4 have it. Ratios are IGD : IDD."
        )
        second = (
            "Fine-tuned heads F_n of one round of GALA, equal weights, loss and gradient on the target's training "
            "images with batch statistics and without dropout. *Noise to signal* is tr Cov(g)/‖E g‖² of the gradient "
            "with respect to the extractor; the *cosine* is that of E g with the gradient of the full pairwise "
            "discrepancy. Means over seeds."
        )
        text = page(
            self.title,
            intro,
            "## The paper's toys",
            first,
            _toy_table(toys),
            "![Ratios against M](variance.png)",
            "## Heads of real runs",
            second,
            _head_table(heads),
            "## Verdict",
            listed([*_toy_verdicts(toys), *_head_verdicts(heads)]),
        )
        drawn = picture("IGD : IDD", PANELS, lambda axes, panel: _draw(axes, panel, toys, heads))
        return write_files(
            folder,
            {"table.json": as_json([*_toy_cells(toys), *_head_cells(heads)]), "table.md": text, "variance.png": drawn},
        )


def _theta(toy: str, theta: float) -> dict[str, float]:
    return {"theta": theta} if toy == "own means" else {}


def _heads(settings: Mapping[str, Any], device: torch.device) -> dict[str, Any]:
    from galafed.reproduction.real_heads import compare, heads_after

    wanted = {key: settings[key] for key in ("benchmark", "target", "rounds", "seed")}
    place = {"engine": "stacked", "device": device.type, "threads": 1}
    place["precision"] = "bfloat16" if device.type == "cuda" else "float32"
    run = resolve(wanted | place)
    return compare(heads_after(run, settings["images"]), settings["draws"], generator(run.seed, "variance", "splits"))


def _toy_row(record: Record) -> dict[str, Any]:
    """A line of the toys' table."""
    found, half = record["found"], record["settings"]["M"]
    return {
        "toy": record["settings"]["toy"],
        "M": half,
        "signed_idd": found["signed IDD"] / found["sigma2"],
        "signed_igd": found["signed IGD"] / found["sigma2"],
        "signed_ratio": found["signed IGD"] / found["signed IDD"],
        "paper": {"signed_idd": 8.0, "signed_igd": 8 / half, "signed_ratio": 1 / half},
        "variance_ratio": found["variance IGD"] / found["variance IDD"],
        "mean_ratio": found["mean IGD"] / found["mean IDD"],
        "relative_ratio": (found["variance IGD"] / found["mean IGD"] ** 2)
        / (found["variance IDD"] / found["mean IDD"] ** 2),
        "splits": found["splits"],
    }


def _toy_table(rows: Sequence[Mapping[str, Any]]) -> str:
    head = ["toy", "M", "signed IDD / σ²", "signed IGD / σ²", "signed ratio", "loss: variance ratio", "1/M"]
    head += ["loss: mean ratio", "1/√M", "loss: ratio of variance/mean²"]
    lines = []
    for row in rows:
        paper, half = row["paper"], row["M"]
        signed = [f"{row[key]:.4g} ({paper[key]:.4g})" for key in ("signed_idd", "signed_igd", "signed_ratio")]
        loss = [f"{row['variance_ratio']:.2f}", f"{1 / half:.2f}", f"{row['mean_ratio']:.2f}", f"{half**-0.5:.2f}"]
        lines.append([row["toy"], str(half), *signed, *loss, f"{row['relative_ratio']:.2f}"])
    return grid(head, lines)


def _toy_cells(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every number of the toys' table."""
    keys = ("signed_idd", "signed_igd", "signed_ratio", "variance_ratio", "mean_ratio", "relative_ratio")
    return [
        table_cell(
            f"{row['toy']}: {key}",
            f"M = {row['M']}",
            row[key],
            unit="1",
            selection="all pairs and splits",
            paper=row["paper"].get(key),
            splits=row["splits"],
        )
        for row in rows
        for key in keys
    ]


def _name(row: Mapping[str, Any], *words: str) -> str:
    """A run as it is called, with the numbers of images and draws where they are not the usual ones."""
    parts = [row["benchmark"], row["target"], *words]
    usual = {"images": Settings.images, "draws": Settings.draws}
    parts += [f"{row[key]} {key}" for key, value in usual.items() if row[key] not in (value, None)]
    return ", ".join(parts)


def _head_cells(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every number of the table of heads, and its ratio to that of IDD where it is compared."""
    keys = {"mean": "mean", "variance": "variance", "relative_variance": "relative", "noise_to_signal": "noise"}
    return [
        table_cell(
            f"{row['estimator']}: {key}",
            _name(row, f"round {row['round']}"),
            row[key],
            unit="1",
            selection=f"{row['choices']} choices",
            rounds=row["round"],
            std=row["spreads"][key],
            seeds=row["seeds"],
            sources=row["sources"],
            ratio=row["ratios"][keys[key]] if key in keys else None,
        )
        for row in rows
        for key in (*keys, "cosine")
    ]


def _head_rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Of each run, seeds averaged: a line for IDD and for both readings of IGD."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        settings = record["settings"]
        keys = ("benchmark", "target", "rounds", "images", "draws")
        groups.setdefault(tuple(settings.get(key) for key in keys), []).append(record)
    rows = []
    for (benchmark, target, rounds, images, draws), members in groups.items():
        for name in ("IDD", *IGD):
            means = {
                key: fmean(member["found"][name][key] for member in members)
                for key in ("mean", "variance", "relative_variance", "noise_to_signal", "cosine")
            }
            spreads = {key: pstdev(member["found"][name][key] for member in members) for key in means}
            noise = [m["found"][name]["noise_to_signal"] / m["found"]["IDD"]["noise_to_signal"] for m in members]
            rows.append(
                {
                    "benchmark": benchmark, "target": target, "round": rounds, "images": images, "draws": draws,
                    "sources": members[0]["found"]["sources"], "estimator": name, "seeds": len(members),
                    "choices": members[0]["found"][name]["choices"],
                    "noise_ratio_of_seeds": [min(noise), max(noise)], "spreads": spreads, **means,
                }
            )  # fmt: skip
    for row in rows:
        idd = next(r for r in rows if _same_run(r, row) and r["estimator"] == "IDD")
        ratios = {"mean": "mean", "variance": "variance", "relative": "relative_variance", "noise": "noise_to_signal"}
        row["ratios"] = {name: row[key] / idd[key] for name, key in ratios.items()}
    return rows


def _same_run(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one[key] == other[key] for key in ("benchmark", "target", "round", "images", "draws"))


def _head_table(rows: Sequence[Mapping[str, Any]]) -> str:
    head = ["run", "N", "estimator", "choices", "seeds", "mean", "variance", "variance/mean²", "noise to signal"]
    head += ["cosine", "variance ratio", "2/N"]
    return grid(
        head,
        [
            [
                _name(row, f"round {row['round']}"), str(row["sources"]), row["estimator"],
                str(row["choices"]), str(row["seeds"]), f"{row['mean']:.4f}", f"{row['variance']:.2e}",
                f"{row['relative_variance']:.4f}", f"{row['noise_to_signal']:.3f}", f"{row['cosine']:.3f}",
                f"{row['ratios']['variance']:.3f}", f"{2 / row['sources']:.3f}",
            ]
            for row in rows
        ],
    )  # fmt: skip


def _toy_verdicts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    off = max(abs(row["M"] * row["signed_ratio"] - 1) for row in rows)
    factor_off = max(
        abs(row[key] / row["paper"][key] * (2 * row["M"] - 1) / (2 * row["M"]) - 1)
        for row in rows
        for key in ("signed_idd", "signed_igd")
    )
    smaller = ": IGD is a smaller step" if all(row["mean_ratio"] < 1 for row in rows) else ""
    exactly = "confirmed, and exact" if off < EXACT else "confirmed" if off < ABOUT else "not confirmed"
    factors = ", ".join(f"{row['signed_idd'] / 8:.3f} (M = {row['M']})" for row in rows if row["toy"] == rows[0]["toy"])
    losses = [row["M"] * row["variance_ratio"] for row in rows]
    means = [row["M"] ** 0.5 * row["mean_ratio"] for row in rows]
    relative = [row["relative_ratio"] for row in rows]
    return [
        f"**1/M for the signed quantity: {exactly}** (largest deviation {off:.0e}), where the paper says "
        "approximately.",
        f"**8 and 8/M: {'both too small by the same factor' if factor_off < EXACT else 'not off by one factor'} "
        f"2M/(2M-1)**: {factors}.",
        f"**1/M for the loss itself**: its variance ratio is {min(losses):.2f} to {max(losses):.2f} times 1/M.",
        f"**The mean of IGD** is {min(means):.2f} to {max(means):.2f} times 1/√M of IDD's{smaller}. Relative to its "
        f"mean, IGD's variance is {min(relative):.2f} to {max(relative):.2f} times IDD's in the toys.",
    ]


def _head_verdicts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    means = [row["ratios"]["mean"] for row in rows if row["estimator"] in IGD]
    lines = []
    if means:
        small = min(means) > 1 - SMALL_BIAS
        lines.append(
            f"*In practice the bias of IGD is small*: on the heads of real runs its mean is {min(means):.2f} to "
            f"{max(means):.2f} times that of IDD, which has none: {'confirmed' if small else 'not confirmed'}."
        )
    for row in (row for row in rows if row["estimator"] in IGD):
        ratios, (low, high) = row["ratios"], row["noise_ratio_of_seeds"]
        sources = f"{row['sources']} sources"
        lines.append(
            f"**{_name(row, sources, row['estimator'])}**: variance "
            f"{ratios['variance']:.2f} times IDD's (2/N = {2 / row['sources']:.2f}), mean {ratios['mean']:.2f} times, "
            f"variance/mean² {ratios['relative']:.2f} times, the gradient's noise to signal "
            f"{ratios['noise']:.2f} times ({low:.2f} to {high:.2f} over {row['seeds']} seeds)."
        )
    return lines


def _draw(axes: Axes, panel: str, toys: Sequence[Mapping[str, Any]], heads: Sequence[Mapping[str, Any]]) -> None:
    key, ours = {
        "variance": ("variance_ratio", "variance"),
        "mean": ("mean_ratio", "mean"),
        "variance / mean²": ("relative_ratio", "relative"),
    }[panel]
    halves = sorted({row["M"] for row in toys} | {row["sources"] / 2 for row in heads})
    words, power = {"variance": ("1/M", -1.0), "mean": ("1/√M", -0.5)}.get(panel, ("as IDD", 0.0))
    axes.plot(halves, [half**power for half in halves], "k--", lw=1, label=words)
    for colour, toy in enumerate(dict.fromkeys(row["toy"] for row in toys)):
        points = sorted((row["M"], row[key]) for row in toys if row["toy"] == toy)
        axes.plot(*zip(*points, strict=True), "o-", color=f"C{colour}", label=f"toy, {toy}")
    for row in (row for row in heads if row["estimator"] in IGD):
        mark = "*" if row["estimator"] == IGD[0] else "s"
        words = row["estimator"].removeprefix("IGD, ")
        axes.plot(row["sources"] / 2, row["ratios"][ours], mark, ms=8, label=f"{row['benchmark']}, {words}")
    axes.set_xlabel("M = N/2", fontsize=8)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=6)
