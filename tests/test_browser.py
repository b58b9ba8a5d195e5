"""Pages in a real browser: every chart drawn, no complaint, no host asked, at every width and in the dark."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chromium import Browser, browser, needs_browser
from galafed.report.page.writing import write_comparison, write_report
from in_process import ROOT, toy_run

pytestmark = needs_browser

SHAPES = "plot.querySelectorAll('svg path.curve, svg rect.cell, svg rect.bar, svg .dot').length"
SIZES = [(1280, 900, False), (1280, 900, True), (390, 844, False), (390, 844, True)]


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each kind."""
    place = tmp_path_factory.mktemp("pages")
    write_report(toy_run().folder, place / "run.html", None)
    write_report(ROOT / "results" / "digit-five", place / "study.html", None)
    write_comparison([toy_run().folder, toy_run("fact").folder], place / "comparison.html")
    return {kind: place / f"{kind}.html" for kind in ("run", "study", "comparison")}


@pytest.mark.parametrize(("width", "height", "dark"), SIZES)
@pytest.mark.parametrize("kind", ["run", "study", "comparison"])
def test_every_chart_is_drawn(
    kind: str, width: int, height: int, dark: bool, tab: Browser, pages: dict[str, Path]
) -> None:
    tab.size(width, height, dark=dark)
    tab.open(pages[kind].as_uri())
    tab.wait(0.2)
    drawn = tab.value(f"[...document.querySelectorAll('.plot')].map((plot) => [plot.dataset.chart, {SHAPES}])")
    assert len(drawn) == {"run": 8, "study": 3, "comparison": 6}[kind]
    assert all(count > 0 for _, count in drawn), drawn
    boxes = tab.value("[...document.querySelectorAll('.plot svg')].map((s) => s.getBoundingClientRect().width)")
    assert all(box > 200 for box in boxes)
    assert tab.value("document.documentElement.scrollWidth") <= width
    ground = tab.value("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground))) < 200) is dark
    assert not tab.value("[...document.querySelectorAll('svg *')].some((e) => /NaN|undefined/.test(e.outerHTML))")
    assert tab.complaints == []
    assert tab.requests == [pages[kind].as_uri()]


def test_differences_part_by_colour_and_a_zero_has_no_minus(tab: Browser, pages: dict[str, Path]) -> None:
    tab.size(1280, 900)
    tab.open(pages["study"].as_uri())
    cells = tab.value(
        "[...document.querySelectorAll('[data-chart=\"paper-chart\"] rect.cell')].map((cell) =>"
        " [cell.nextElementSibling?.textContent ?? '', cell.getAttribute('fill')])"
    )
    numbers = [(text, fill) for text, fill in cells if re.fullmatch(r"[+-]\d+\.\d", text)]
    assert len(numbers) > 30
    assert all(("--below" in fill) == text.startswith("-") for text, fill in numbers if text != "+0.0")
    assert "-0.0" not in {text for text, _ in numbers}


def test_charts_answer_to_pointer_keys_and_legend(tab: Browser, pages: dict[str, Path]) -> None:
    tab.size(1280, 900)
    tab.open(pages["run"].as_uri())
    curve = '[data-chart="relevance-chart"]'
    tip = "document.getElementById('tip')"
    assert tab.value(f"{tip}.hidden")
    tab.hover(f"{curve} svg", across=0.97)
    assert "round 3" in tab.value(f"{tip}.textContent")
    assert "inverted: 0.297" in tab.value(f"{tip}.textContent")
    tab.value(f"document.querySelector('{curve}').focus()")
    tab.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowLeft", code="ArrowLeft")
    assert "round 2" in tab.value(f"{tip}.textContent")
    paths = f"document.querySelectorAll('{curve} path.curve').length"
    assert tab.value(paths) == 4
    tab.value(f"document.querySelector('{curve} .legend button').click()")
    assert tab.value(paths) == 3
    assert tab.value(f"document.querySelector('{curve} .legend button').getAttribute('aria-pressed')") == "false"
    assert tab.value(f"document.activeElement === document.querySelector('{curve} .legend button')")
    tab.value(f"document.querySelector('{curve} .legend button').click()")
    assert tab.value(paths) == 4
    tab.hover('[data-chart="confusion-chart"] rect.cell')
    assert "100.0 %" in tab.value(f"{tip}.textContent")
    tab.hover('[data-chart="traffic-chart"] rect.bar')
    assert "kB" in tab.value(f"{tip}.textContent")
    dots = '[data-chart="map-chart"]'
    before = tab.value(f"[...document.querySelectorAll('{dots} .dot')].map((d) => d.getAttribute('fill')).join()")
    tab.value(f"document.querySelectorAll('{dots} .choice button')[1].click()")
    after = tab.value(f"[...document.querySelectorAll('{dots} .dot')].map((d) => d.getAttribute('fill')).join()")
    assert before != after
    count = f"document.querySelectorAll('{dots} .dot').length"
    whole = tab.value(count)
    tab.value(f"document.querySelector('{dots} .legend button').click()")
    assert tab.value(count) == pytest.approx(whole * 2 / 3)  # one of three classes is gone
    assert tab.complaints == []


def test_a_new_width_draws_anew(tab: Browser, pages: dict[str, Path]) -> None:
    tab.size(1280, 900)
    tab.open(pages["run"].as_uri())
    wide = tab.value("document.querySelector('.plot svg').getBoundingClientRect().width")
    tab.size(390, 844)
    tab.until(f"document.querySelector('.plot svg').getBoundingClientRect().width < {wide} - 50")
    assert tab.value("document.documentElement.scrollWidth") <= 390


def test_the_browser_notices_what_it_should(tab: Browser, tmp_path: Path) -> None:
    """The checks above can fail: an exception, a console error and a request are seen."""
    bad = tmp_path / "bad.html"
    bad.write_text("<img src='http://127.0.0.1:9/x.png'><script>console.error('oh'); undefined.nothing;</script>")
    tab.open(bad.as_uri())
    tab.wait(0.5)
    assert any("oh" in text for text in tab.complaints)
    assert any("nothing" in text for text in tab.complaints)
    assert "http://127.0.0.1:9/x.png" in tab.requests


def test_a_live_page_follows_its_run_to_the_end(tab: Browser, tmp_path: Path) -> None:
    tab.size(1280, 900)
    command = [sys.executable, "-u", "-m", "galafed", "run", "toy", "--rounds", "200", "--out", "run", "--live",
               "--set", 'sources=["dark", "bright"]', "--set", "threads=1"]  # fmt: skip
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = re.findall(r"http://127\.0\.0\.1:\d+/\S+/", process.stdout.readline())[0]
            tab.events.clear()
            tab.call("Page.navigate", url=address)
            tab.until("document.querySelectorAll('.plot path.curve').length > 0", 60)
            version = tab.value("document.getElementById('version').textContent")
            tab.until(f"document.getElementById('version').textContent !== '{version}'", 60)
            tab.until("document.getElementById('state').textContent === 'done'", 120)
            assert "200 of 200" in tab.value("document.querySelector('.facts').textContent")
            process.communicate(timeout=60)
            assert process.returncode == 0
            assert all(asked.startswith(address) for asked in tab.requests), tab.requests
            assert tab.complaints == []
        finally:
            process.kill()
