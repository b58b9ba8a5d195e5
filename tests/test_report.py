"""The page of a run, a study, several runs: what is on it, and that it is whole without a browser."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from galafed.algorithms.base import algorithms
from galafed.benchmarks.base import benchmarks
from galafed.errors import ConfigError, DataError
from galafed.report.page.charts import Curves
from galafed.report.page.document import Page, Section
from galafed.report.page.reading import confusions, relevances
from galafed.report.page.run import run_page
from galafed.report.page.writing import write_report
from galafed.runs.records import metrics
from in_process import ROOT, gala, toy_run

CHARTS = {
    "accuracy-chart": "line", "loss-chart": "line", "relevance-chart": "line", "similarity-chart": "heat",
    "confusion-chart": "heat", "map-chart": "scatter", "traffic-chart": "bars", "time-chart": "bars",
}  # fmt: skip
EMPTY = {"meta", "link", "img", "br", "path", "circle"}


class Dom(HTMLParser):
    """Checks that elements are closed in order, and gathers what a page is made of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def charts_of(html: str) -> dict[str, Any]:
    """The drawings a page carries."""
    (found,) = re.findall(r'<script type="application/json" id="charts">(.*?)</script>', html, flags=re.DOTALL)
    return dict(json.loads(found))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    path, missing = write_report(toy_run().folder, tmp_path_factory.mktemp("report") / "page.html", None)
    assert missing == ""
    return path.read_text(encoding="utf-8")


def test_every_chart_is_there_with_words_and_a_table(page: str) -> None:
    dom, charts = Dom(page), charts_of(page)
    assert {key: chart["kind"] for key, chart in charts.items()} == CHARTS
    plots = [a for a in dom.all("div") if a.get("class") == "plot"]
    assert {plot["data-chart"] for plot in plots} == set(CHARTS)
    assert all(plot["aria-label"] and plot["tabindex"] == "0" for plot in plots)
    assert len(dom.all("details")) == len(CHARTS)
    for title in (
        "Accuracy",
        "Relevance",
        "Mistakes",
        "certain",
        "Before and after",
        "Traffic",
        "Failures",
        "Configuration",
    ):
        assert title in dom.text


def test_a_page_is_readable_by_people_and_machines_and_asks_no_host(page: str) -> None:
    dom = Dom(page)
    assert ("html", {"lang": "en"}) in dom.elements
    assert any(meta.get("name") == "viewport" for meta in dom.all("meta"))
    assert "prefers-color-scheme: dark" in page
    assert all(image["alt"] and str(image["src"]).startswith("data:image/png;base64,") for image in dom.all("img"))
    assert len(dom.all("img")) == 16
    assert all(str(link["href"]).startswith("#") for link in dom.all("a"))
    ids = [a["id"] for _, a in dom.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert {str(link["href"])[1:] for link in dom.all("a")} <= set(ids)
    assert not re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(?:https?:)?//""", page)
    assert "default-src 'none'" in page
    assert [heading for heading, _ in dom.elements if heading == "h1"] == ["h1"]


def test_the_numbers_are_those_of_the_run(page: str) -> None:
    charts, lines = charts_of(page), metrics(toy_run().folder)
    assert charts["accuracy-chart"]["series"][0]["points"] == [[line["round"], line["accuracy"]] for line in lines]
    marks = {mark["kind"]: mark for mark in charts["accuracy-chart"]["marks"]}
    assert set(marks) == {"last", "pick", "oracle"}
    assert "oracle" in marks["oracle"]["name"]
    drawn = {series["name"]: series["points"] for series in charts["relevance-chart"]["series"]}
    assert drawn == {s: [[n["round"], n["relevance"][s]] for n in lines] for s in lines[0]["relevance"]}
    heat = charts["similarity-chart"]
    assert dict(zip(heat["rows"], heat["values"], strict=True)) == lines[-1]["class_similarity"]
    confusion = charts["confusion-chart"]["values"]
    right = sum(row[n] for n, row in enumerate(confusion)) / len(confusion)
    assert right == pytest.approx(toy_run().accuracy)  # the classes of toy are equally frequent
    sent = {s["name"]: dict(zip(charts["traffic-chart"]["names"], s["values"], strict=True))
            for s in charts["traffic-chart"]["series"]}  # fmt: skip
    assert sent["sent"]["noisy"] == lines[-1]["sites"]["noisy"]["up"]
    assert sum(charts["time-chart"]["series"][0]["values"]) == pytest.approx(
        sum(line["seconds"] for line in lines) / len(lines), rel=0.05
    )
    assert toy_run().summary["algorithm"] in Dom(page).text


def test_the_map_has_every_domain_before_and_after(page: str) -> None:
    chart = charts_of(page)["map-chart"]
    assert [panel["name"].split(":")[0] for panel in chart["panels"]] == ["before", "after"]
    count = len(chart["colour_by"]["domain"]["of"])
    assert chart["colour_by"]["domain"]["names"] == ["noisy", "bright", "dark", "faint", "inverted"]
    assert all(len(panel["points"]) == count for panel in chart["panels"])
    assert set(chart["colour_by"]["class"]["of"]) == {0, 1, 2}
    assert chart["panels"][0]["points"] != chart["panels"][1]["points"]


@pytest.mark.parametrize("algorithm", algorithms.names())
def test_every_algorithm_has_a_page(algorithm: str) -> None:
    html = run_page(toy_run(algorithm).folder).html()
    Dom(html)
    assert {"accuracy-chart", "loss-chart", "traffic-chart", "time-chart"} <= charts_of(html).keys()


def test_names_cannot_break_out_of_the_page() -> None:
    evil = "</script><script>alert(1)</script><b title='\"x"
    chart = Curves(series={evil: [(1, 0.5)]}).chart("c", evil, evil)
    html = Page(title=evil, sentence=evil, sections=[Section("s", evil, [evil], [evil], [chart])]).html()
    dom = Dom(html)
    assert len(dom.all("script")) == 2
    assert dom.all("b") == []
    assert charts_of(html)["c"]["series"][0]["name"] == evil


def test_a_source_that_fell_is_read_with_its_far_classes() -> None:
    near, far = [0.9] * 10, [0.9] * 10
    far[1], far[7] = 0.3, 0.4
    lines = [
        {"relevance": {"svhn": 0.25, "mnist": 0.5, "usps": 0.25}},
        {
            "relevance": {"svhn": 0.16, "mnist": 0.51, "usps": 0.33},
            "class_similarity": {"svhn": far, "mnist": near, "usps": near},
        },
    ]
    read = relevances(lines, [str(n) for n in range(10)], {"usps": "stand-in"})
    assert read[2] == "svhn fell from 0.25 to 0.16: its class centroids 1 and 7 sit far from the target's."
    assert read[0].startswith("mnist stayed near 0.51")
    assert read[1].startswith("usps (stand-in) rose from 0.25 to 0.33")
    assert relevances([{"relevance": {"a": 0.5, "b": 0.5}}], [], {}) == [
        "All 2 sources count alike: this method does not weigh them."
    ]
    assert relevances([{"relevance": {}}], [], {}) == []


def test_mistakes_are_told_the_most_frequent_first() -> None:
    assert confusions([[5, 2], [3, 5]], ["cat", "dog"]) == [
        "3 images of class dog were taken for cat.",
        "2 images of class cat were taken for dog.",
    ]
    assert confusions([[5, 0], [0, 5]], ["cat", "dog"]) == ["Not one test image was taken for another class."]


def test_without_the_data_the_page_says_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise DataError("toy: its files are missing")

    folder = toy_run().folder  # made with the data, whichever test is the first to ask for it
    monkeypatch.setattr(benchmarks.get("toy"), "load", gone)
    path, missing = write_report(folder, tmp_path / "page.html", None)
    html = path.read_text()
    assert "its files are missing" in missing
    assert "its files are missing" in html
    assert charts_of(html).keys() == CHARTS.keys() - {"confusion-chart", "map-chart"}


def test_another_run_can_stand_for_before(tmp_path: Path) -> None:
    path, _ = write_report(toy_run().folder, tmp_path / "page.html", toy_run("source_only").folder)
    assert charts_of(path.read_text())["map-chart"]["panels"][0]["name"] == "before: the final model of run"


def test_a_run_of_an_earlier_version_has_a_page(tmp_path: Path) -> None:
    run = Path(shutil.copytree(toy_run().folder, tmp_path / "old"))
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        del line["sites"], line["phases"], line["class_similarity"]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    html = run_page(run).html()
    assert "earlier version" in Dom(html).text
    assert charts_of(html).keys() == {"accuracy-chart", "loss-chart", "relevance-chart"}


def test_failures_are_listed(tmp_path: Path) -> None:
    run = Path(shutil.copytree(toy_run().folder, tmp_path / "failed"))
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    lines[1]["failures"] = [{"client": "dark", "task": "train", "kind": "invalid", "reason": "it holds <NaN>"}]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    text = Dom(run_page(run).html()).text
    assert "1 answers were missing or refused" in text
    assert "it holds <NaN>" in text


def test_a_study_has_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = gala(capsys, "report", ROOT / "results" / "mini", "--out", tmp_path / "study.html")
    assert answer.code == 0, answer.err
    html = (tmp_path / "study.html").read_text()
    Dom(html)
    heat = charts_of(html)["table-chart"]
    records = json.loads((ROOT / "results/mini/table.json").read_text())
    shown = {(r, c): v for r, row in zip(heat["rows"], heat["values"], strict=True)
             for c, v in zip(heat["columns"], row, strict=True) if v is not None}  # fmt: skip
    assert shown == {(r["row"], r["column"]): r["mean"] for r in records if r["selection"] == "last"}
    assert "paper-chart" not in charts_of(html)  # the paper has no such table


def test_a_table_of_the_paper_has_differences_to_it_on_its_page(tmp_path: Path) -> None:
    write_report(ROOT / "results" / "digit-five", tmp_path / "study.html", None)
    html = (tmp_path / "study.html").read_text()
    text, heat = Dom(html).text, charts_of(html)["paper-chart"]
    assert heat["middle"] == 0
    assert heat["rows"][:2] == ["oracle", "FACT"]
    assert "source-only, target statistics" not in heat["rows"]
    records = json.loads((ROOT / "results/digit-five/table.json").read_text())
    (gala,) = [r for r in records if (r["row"], r["column"], r["selection"]) == ("GALA", "svhn", "last")]
    found = heat["values"][heat["rows"].index("GALA")][heat["columns"].index("svhn")]
    assert found == gala["mean"] - gala["paper"]
    assert f"{found:+.1f}" in text


def study(folder: Path, *cells: dict[str, Any]) -> Path:
    """A study's folder with these cells, of the last round where they do not say otherwise."""
    folder.mkdir()
    common = {"selection": "last", "std": 0.0, "seeds": 1, "rounds": 2, "paper": None, "stand_in": False}
    (folder / "table.json").write_text(json.dumps([common | cell for cell in cells]))
    return folder


def test_systems_are_ranked_where_they_were_measured_on_every_target(tmp_path: Path) -> None:
    easy = {"row": "lucky", "column": "easy", "mean": 99.0}
    both = [{"row": "GALA", "column": column, "mean": mean} for column, mean in (("easy", 95.0), ("hard", 70.0))]
    folder = study(tmp_path / "study", easy, *both)
    write_report(folder, tmp_path / "study.html", None)
    html = (tmp_path / "study.html").read_text()
    assert "2 systems on 2 targets: GALA is ahead with 82.5 % on average" in Dom(html).text
    assert charts_of(html)["means-chart"]["names"] == ["GALA"]
    assert charts_of(html)["table-chart"]["rows"] == ["GALA", "lucky"]
    folder = study(tmp_path / "partial", easy, {"row": "GALA", "column": "hard", "mean": 70.0})
    write_report(folder, tmp_path / "partial.html", None)
    html = (tmp_path / "partial.html").read_text()
    assert "2 systems on 2 targets." in Dom(html).text
    assert "means-chart" not in charts_of(html)


def test_targets_that_were_made_anew_are_marked_on_a_studys_page(tmp_path: Path) -> None:
    write_report(ROOT / "results" / "digit-five", tmp_path / "study.html", None)
    html = (tmp_path / "study.html").read_text()
    for chart in ("table-chart", "paper-chart"):
        assert charts_of(html)[chart]["columns"] == ["mnist", "mnistm", "svhn", "syn*", "usps"]
    assert "* marks a target that cannot be had and was made anew." in Dom(html).text
    assert "syn (regenerated)" in Dom(html).text


DAMAGES = [
    {"row": "GALA", "column": "a", "mean": float("nan")},
    {"row": "GALA", "column": "a", "mean": 1.0, "paper": float("inf")},
    {"row": "GALA", "column": "a", "mean": 1.0, "selection": "selected"},
]


@pytest.mark.parametrize("cell", DAMAGES)
def test_cells_that_cannot_be_drawn_are_told(cell: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no accuracy|are no numbers"):
        write_report(study(tmp_path / "study", cell), None, None)
    numbered = study(tmp_path / "numbered", {"row": 1, "column": "a", "mean": 5.0})
    assert write_report(numbered, None, None)


def test_a_study_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "results" / "mini", tmp_path / "results" / "mini")
    monkeypatch.chdir(tmp_path)
    assert write_report(Path("mini"), None, None)[0] == Path("results/mini/report.html")


def test_runs_side_by_side_have_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [toy_run().folder, toy_run("fact").folder]
    answer = gala(capsys, "compare", *runs, "--html", tmp_path / "runs.html")
    assert answer.code == 0, answer.err
    html = (tmp_path / "runs.html").read_text()
    Dom(html)
    curves = charts_of(html)["accuracy-chart"]["series"]
    assert [c["points"] for c in curves] == [[[n["round"], n["accuracy"]] for n in metrics(run)] for run in runs]
    assert len({curve["name"] for curve in curves}) == 2  # both folders are called "run": told apart by their paths


def test_bad_input_ends_with_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unfinished = Path(shutil.copytree(toy_run().folder, tmp_path / "unfinished"))
    (unfinished / "done").unlink()
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "table.json").write_text('[{"row": 1}]')
    (tmp_path / "file").write_text("")
    wrong: list[tuple[list[object], int, str]] = [
        (["report", tmp_path / "nowhere"], 2, "neither a run"),
        (["report", unfinished], 2, "is not finished"),
        (["report", toy_run().folder, "--before", tmp_path / "nowhere"], 2, "holds no run"),
        (["report", toy_run().folder, "--before", unfinished], 2, "is not finished"),
        (["report", toy_run().folder, "--out", tmp_path / "file" / "page.html"], 1, "could not be written"),
        (["report", tmp_path / "study"], 3, "is not the table of a study"),
        (["compare", toy_run().folder, unfinished, "--html", tmp_path / "x.html"], 2, "is not finished"),
        (["compare", toy_run().folder, "--html", tmp_path / "file" / "x.html"], 1, "could not be written"),
    ]
    for arguments, code, words in wrong:
        answer = gala(capsys, *arguments)
        assert (answer.code, words in answer.err) == (code, True), (arguments, answer)
        assert "Traceback" not in answer.err


def test_a_page_that_cannot_be_written_is_an_error_of_its_own() -> None:
    with pytest.raises(ConfigError, match="neither a run"):
        write_report(Path("nothing-here"), None, None)
