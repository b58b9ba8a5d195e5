"""The page over all results: made of what the studies wrote, and up to date with what is committed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from galafed.errors import ConfigError, DataError
from galafed.reproduction import glance
from galafed.reproduction.overview import overview, write_overview
from galafed.reproduction.published import CONTENTS
from galafed.runs import archive
from galafed.studies.base import progress, studies

RESULTS = Path(__file__).parent.parent / "results"


def test_the_committed_page_is_up_to_date() -> None:
    committed = (RESULTS / "README.md").read_text(encoding="utf-8")
    assert committed == overview(RESULTS), "results have changed: write the page with 'gala reproduce --summary'"


def test_links_of_the_committed_pages_lead_somewhere() -> None:
    for page in RESULTS.rglob("*.md"):
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name} of {page.parent.name}: {link}"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """One of 80 runs of Digit-Five, with its table."""
    folder = tmp_path / "digit-five"
    *_, cell = (cell for cell in studies.get("digit-five")().cells() if cell.row == "GALA")  # type: ignore[attr-defined]
    archive.write(folder, [{"config": cell.run.to_dict()}])
    common = {"std": 0.0, "seeds": 1, "rounds": 100}
    records = [
        *(
            {"row": "GALA", "column": column, "mean": 99.0, "paper": 99.2, "stand_in": False, "selection": "last"}
            for column in ("mnist", "mnistm", "svhn", "usps")
        ),
        {"row": "GALA", "column": "syn", "mean": 91.0, "paper": 95.2, "stand_in": True, "selection": "last"},
        {"row": "GALA", "column": "syn", "mean": 1.0, "paper": 95.2, "stand_in": True, "selection": "best_oracle"},
        {"row": "FACT", "column": "mnist", "mean": 98.0, "paper": None, "stand_in": False, "selection": "last"},
    ]
    (folder / "table.json").write_text(json.dumps([record | common for record in records]))
    (folder / "table.md").write_text(
        "# t\n\n## Last round\n\nx\n\n## Verdict\n\n- **GALA** below: syn.\n\n## Worse\n\n- y\n"
    )
    (folder / "curve.png").write_bytes(b"")
    (tmp_path / "apart").mkdir()
    (tmp_path / "apart" / "table.md").write_text("# Something else\n\ntext\n")
    return tmp_path


DAMAGED = [("digit-five/table.json", b"[3"), ("digit-five/table.json", b"\xff"), ("apart/table.md", b"\xff")]


@pytest.mark.parametrize(("name", "content"), DAMAGED)
def test_a_file_that_cannot_be_read_is_named(results: Path, name: str, content: bytes) -> None:
    (results / name).write_bytes(content)
    with pytest.raises(DataError, match=f"{name}: cannot be read"):
        overview(results)


def test_a_table_at_a_glance(tmp_path: Path) -> None:
    accuracies = {
        "mnist": (99.16, 99.2, 99.3),
        "mnistm": (92.1, 93.0, 92.0),
        "svhn": (89.9, 91.2, 90.0),
        "usps": (98.34, 98.3, 98.31),
    }
    records = [
        {"row": row, "column": column, "mean": mean, "paper": paper, "stand_in": column == "usps", "selection": "last"}
        for column, (ours, paper, theirs) in accuracies.items()
        for row, mean in (("GALA", ours), ("FACT", theirs))
    ]
    (tmp_path / "digit-five").mkdir()
    table = tmp_path / "digit-five" / "table.json"
    table.write_text(json.dumps([*records, records[0] | {"mean": 1.0, "selection": "best_oracle"}]))
    means = "94.9* (95.4) | 94.9* (95.4)"
    told = f"[digit-five](digit-five/table.md) | {means} | mnist, usps | mnistm | svhn (-1.3) | 1 (0) of 4 |"
    assert told in glance.at_a_glance(tmp_path)  # 0.03 is no lead
    drawing = glance.drawn(tmp_path)
    assert drawing is not None
    assert drawing.startswith(b"\x89PNG")
    write_overview(tmp_path)
    assert (tmp_path / glance.PICTURE).read_bytes().startswith(b"\x89PNG")
    for lacking in (records[1:], [record | {"paper": None} for record in records]):
        table.write_text(json.dumps(lacking))
        assert glance.at_a_glance(tmp_path) == ""
        assert glance.drawn(tmp_path) is None


def test_headlines_verdicts_pictures_and_what_is_missing(results: Path) -> None:
    text = overview(results)
    assert "| [digit-five](digit-five/table.md) | 1 of 80 |" in text
    assert "| GALA | 97.4* | 98.4 | 5 of 5 | 1 | 100 |" in text
    assert "| FACT | - | - | 1 of 5 | 1 | 100 |" in text  # a mean over other columns than GALA's
    assert "- **GALA** below: syn." in text
    assert "- y" not in text
    assert "](digit-five/curve.png)" in text
    assert "- digit-five: 79 of 80 not measured" in text
    assert "- [apart/table.md](apart/table.md): Something else" in text


def test_what_must_be_known_of_the_data_is_told_once(results: Path) -> None:
    text = overview(results)
    assert (
        "`gala reproduce digit-five`: 1 of 80 measured. Data of the second edition ([what it is](#data-of-the-se"
        in text
    )
    assert text.count("## Data of the second edition\n\nSYN is drawn by a recipe") == 1
    assert text.count("SYN is drawn by a recipe") == 1
    assert "([syn](syn/table.md))" in text
    assert "the first edition\n" not in text  # of which nothing was measured here


def test_the_papers_tables_and_figures_come_first_in_its_order(tmp_path: Path) -> None:
    rows = [row["name"] for row in progress(tmp_path)]
    assert rows[:4] == ["digit-five", "office-caltech10", "digit-18", "source-count"]
    assert sorted(rows) == sorted(studies.names())  # each once
    text = overview(RESULTS)
    places = [text.index(f"\n| [{name}]({name}/table.md) | ") for name in rows]
    besides = text.index("\n| ours besides | ")
    assert places == sorted(places)
    assert [place < besides for place in places] == [name in CONTENTS for name in rows]
    titles = [row["title"] for row in progress(RESULTS) if row["measured"]]
    assert [line[3:] for line in text.splitlines() if line[3:] in titles] == titles


def test_a_mean_over_some_of_the_columns_to_be_is_none(results: Path) -> None:
    table = results / "digit-five" / "table.json"
    table.write_text(json.dumps([each for each in json.loads(table.read_text()) if each["column"] != "usps"]))
    assert "| GALA | - | - | 4 of 5 | 1 | 100 |" in overview(results)


def test_a_changed_result_changes_the_page(results: Path) -> None:
    before = write_overview(results).read_text()
    (results / "digit-five" / "table.json").write_text("[]")
    assert overview(results) != before


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no folder of results"):
        overview(tmp_path / "nowhere")
