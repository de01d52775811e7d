"""A reader opens the report in a browser: points, presses keys, switches, drags, prints, takes data away."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from microtome.report.writing import write_page
from microtome.rounding import between
from report import page_samples

api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip: --group page)")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Debian's chromium is not installed (apt: chromium)")
READY = "performance.getEntriesByName('microtome-ready').length > 0"
OPEN_WITHIN = 10_000 if os.environ.get("CI") else 2_000  # milliseconds; machines of CI do other work beside


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    # A sandbox inside a container would need rights that root does not have there.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with api.sync_playwright() as started:
        one = started.chromium.launch(executable_path=CHROMIUM, args=options)
        yield one
        one.close()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Open a document; at the end, nothing was asked for and no error was told."""
    contexts, complaints = [], []

    def show(document: dict[str, Any], *, width: int = 1280, height: int = 800, **options: Any) -> Any:
        path = write_page(document, tmp_path / f"report-{len(contexts)}.html")
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        own = path.as_uri()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console",
            lambda told: complaints.append(told.text) if told.type in ("error", "warning") else None,
        )
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        page.on(
            "request",
            lambda asked: (
                None
                if asked.url.split("#")[0] == own or asked.url.startswith(("data:", "blob:"))
                else complaints.append(f"asked for {asked.url}")
            ),
        )
        page.goto(own)
        until(page, READY)
        return page

    yield show
    for context in contexts:
        context.close()
    assert complaints == []


def until(page: Any, expression: str, seconds: float = 30.0) -> None:
    """Wait until something holds; asked from outside, since the page lets no text run as a script."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(20)


def go(page: Any, section: str) -> Any:
    """Scroll a section near, wait until it is drawn, and give it."""
    found = page.locator(f"[id='{section}']")
    found.evaluate("node => node.scrollIntoView()")
    page.locator(f"[id='{section}'].drawn").wait_for(state="attached")
    return found


def at(grid: Any, i: int, j: int) -> Any:
    return grid.locator(f"[data-i='{i}'][data-j='{j}']")


def luminance(color: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
    line = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * line[0] + 0.7152 * line[1] + 0.0722 * line[2]


def test_findings_stand_on_the_first_screen_and_lead_to_their_figures(opened: Callable[..., Any]) -> None:
    findings = [
        {"text": "Block 2 can go (95 %).", "section": "spans", "layers": ["tuned/2"], "sure": "shown"},
        {"text": "Nothing is shown of the rest.", "section": None, "layers": [], "sure": "inconclusive"},
    ]
    page = opened(page_samples.small() | {"findings": findings})
    items = page.locator(".findings li")
    assert items.count() == 2
    assert items.nth(1).bounding_box()["y"] < 500
    assert page.locator(".findings .badge").all_inner_texts() == ["inconclusive"]
    items.nth(0).locator("a").click()
    page.locator("#spans.drawn").wait_for(state="attached")
    until(page, "Math.abs(document.getElementById('spans').getBoundingClientRect().top) < 60")
    # The layers that a finding speaks of are marked.
    assert page.locator("#spans [role=option].marked").all_inner_texts() == ["2"]


def test_each_sentence_stands_once_with_its_evidence_folded(opened: Callable[..., Any]) -> None:
    finding = {"text": "base on rte: Block 2 can go.", "evidence": "Cost: 0.3 points.", "layers": []}
    document: Any = page_samples.small() | {"findings": [finding | {"section": "spans", "sure": "shown"}]}
    [below] = next(section["below"] for section in document["sections"] if section["id"] == "spans")
    page = opened(document)
    evidence = page.locator(".findings .folded p")
    assert not evidence.is_visible()
    page.locator(".findings summary").click()
    assert evidence.inner_text() == "Cost: 0.3 points."
    section = go(page, "spans")
    assert section.get_by_role("link", name="1 finding at the top").is_visible()
    assert not section.get_by_text(below["text"]).is_visible()
    section.get_by_text("1 further sentence").click()
    text = page.locator("main").inner_text()
    assert text.count(finding["text"]) == text.count(below["text"]) == 1


def test_contents_are_by_experiment_where_a_study_has_them(opened: Callable[..., Any]) -> None:
    document: Any = page_samples.small()
    for place, section in enumerate(document["sections"]):
        section["group"] = "maps" if place else "cuts"
    page = opened(document)
    assert page.locator("#contents h3").all_inner_texts() == ["cuts", "maps"]
    second = document["sections"][1]["id"]
    assert page.locator(f"[id='{second}'] .eyebrow").inner_text().startswith("maps")


def test_what_several_rows_are_of_stands_in_the_first(opened: Callable[..., Any]) -> None:
    rows = [["One claim.", "a", 1.0], ["One claim.", "b", 2.0], ["Another.", "a", 3.0]]
    page = opened(page_samples.document([page_samples.scores_section() | {"rows": rows}]))
    assert go(page, "scores").locator("tbody th").all_inner_texts() == ["One claim.", "", "Another."]


def test_provenance_is_a_table(opened: Callable[..., Any]) -> None:
    page = opened(page_samples.small())
    rows = page.locator("#provenance table.origin tr").all_inner_texts()
    assert [row.split() for row in rows] == [["torch", "2.13.0"], ["seconds", "12.50"]]


def test_pointing_at_a_cell_tells_all_that_is_known_of_it(opened: Callable[..., Any]) -> None:
    made = page_samples.small()
    page = opened(made)
    grid = go(page, "map").locator("[role=grid]").first
    at(grid, 1, 2).hover()
    told = page.locator("#tip").inner_text()
    value = made["sections"][0]["panels"][0]["measures"][0]["values"][1][2]
    for part in (
        "base/1 × base/2",
        f"{value:.3f}",
        between(value - 0.04, value + 0.03, 3),
        "0.012",
        "1,500",
    ):
        assert part in told
    assert f"{40 * value:.1f}" in told
    assert "95 % interval" in told
    assert f"{value:.3f}" in page.locator("#readout").inner_text()
    page.mouse.move(2, 2)
    assert page.locator("#tip").is_hidden()


def test_undefined_cell_is_hatched_and_says_why(opened: Callable[..., Any]) -> None:
    page = opened(page_samples.small())
    cell = at(go(page, "map").locator("[role=grid]").nth(1), 0, 3)
    assert cell.get_attribute("fill") == "url(#hatch)"
    cell.hover()
    assert "undefined" in page.locator("#tip").inner_text()
    assert "the layer is constant" in page.locator("#tip").inner_text()


def test_measure_and_what_is_shown_can_be_switched(opened: Callable[..., Any]) -> None:
    made = page_samples.small()
    page = opened(made)
    section = go(page, "map")
    section.locator("select[data-choice=measure]").select_option("svcca")
    other = made["sections"][0]["panels"][0]["measures"][1]["values"][0][2]
    label = at(section.locator("[role=grid]").first, 0, 2).get_attribute("aria-label")
    assert label == f"base/0, base/2: {other:.3f}"
    section.locator("select[data-choice=show]").select_option("width")
    label = at(section.locator("[role=grid]").first, 0, 2).get_attribute("aria-label")
    assert label is not None
    assert float(label.rpartition(" ")[2]) == pytest.approx(0.07, abs=1e-3)
    shows = section.locator("select[data-choice=show] option").all_inner_texts()
    assert shows == ["value", "null mean", "z", "interval width"]


def test_what_a_measure_lacks_is_said(opened: Callable[..., Any]) -> None:
    made = page_samples.map_section()
    made["panels"][1]["measures"][0]["z"] = None
    page = opened(page_samples.document([made]))
    section = go(page, "map")
    section.locator("select[data-choice=show]").select_option("z")
    assert section.locator("[role=grid]").count() == 1
    assert "This was not measured here." in section.inner_text()


def test_panels_share_one_scale_that_can_be_read_in_gray(opened: Callable[..., Any]) -> None:
    page = opened(page_samples.small())
    cells = (
        go(page, "map")
        .locator("[role=gridcell]")
        .evaluate_all(
            "nodes => nodes.map(n => [n.getAttribute('aria-label').split(': ')[1], n.getAttribute('fill')])"
        )
    )
    known = sorted((float(value), luminance(fill)) for value, fill in cells if value != "undefined")
    assert len(known) == 31
    light = [brightness for _, brightness in known]
    assert light == sorted(light)


def test_keys_walk_over_a_map_and_open_two_layers(opened: Callable[..., Any]) -> None:
    made = page_samples.small()
    page = opened(made)
    section = go(page, "map")
    section.locator("select").last.focus()
    page.keyboard.press("Tab")
    for key in ("ArrowUp", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert "base/1 × base/2" in page.locator("#readout").inner_text()
    grid = section.locator("[role=grid]").first
    active = grid.get_attribute("aria-activedescendant")
    assert page.locator(f"[id='{active}']").get_attribute("role") == "gridcell"
    page.keyboard.press("Enter")
    panel = page.locator("#cell")
    assert panel.is_visible()
    assert panel.locator("h2").inner_text() == "base/1 × base/2"
    assert page.evaluate("document.activeElement.className") == "close"
    page.keyboard.press("Escape")
    assert panel.is_hidden()
    assert page.evaluate("document.activeElement.getAttribute('role')") == "grid"


def test_panel_of_two_layers_shows_spectra_and_nearest_layers(opened: Callable[..., Any]) -> None:
    made = page_samples.small()
    page = opened(made)
    at(go(page, "map").locator("[role=grid]").first, 0, 3).click()
    panel = page.locator("#cell")
    assert panel.locator(".chart path.line").count() == 2
    assert "base/0 3.5, base/3 6.5" in panel.inner_text()
    near = panel.locator(".neighbors").first.locator("button").all_inner_texts()
    row = made["sections"][0]["panels"][0]["measures"][0]["values"][0]
    best = sorted(range(1, 4), key=lambda k: -row[k])
    assert [one.split("\n")[0] for one in near] == [f"base/{k}" for k in best]
    panel.locator(".neighbors").first.locator("button").first.click()
    assert panel.locator("h2").inner_text() == f"base/0 × base/{best[0]}"


def test_layer_picked_in_one_figure_is_marked_in_all(opened: Callable[..., Any]) -> None:
    page = opened(page_samples.small())
    go(page, "spans")
    go(page, "curves")
    section = go(page, "map")
    section.locator(".tick.row[data-k='2']").first.click()
    assert section.locator(".tick.marked").all_text_contents() == ["2", "2", "2", "2"]
    assert section.locator(".marks .ring").count() == 4
    assert page.locator("#curves [data-layer]").evaluate_all("n => n.map(x => x.dataset.layer)") == ["2", "2"]
    assert page.locator("#spans [role=option].marked").all_inner_texts() == ["2"]
    assert "Layer 2 is marked" in page.locator("#picked").inner_text()
    # The other way round, and by keys: the first point of a curve.
    chart = page.locator("#curves .chart").first
    chart.focus()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    assert section.locator(".tick.marked").all_text_contents() == ["1", "1", "1", "1"]
    page.keyboard.press("Escape")
    assert page.locator(".tick.marked, [data-layer], [role=option].marked").count() == 0
    assert page.locator("#picked").is_hidden()


def test_curves_tell_values_and_can_be_hidden(opened: Callable[..., Any]) -> None:
    page = opened(page_samples.small())
    section = go(page, "curves")
    chart = section.locator(".chart").first
    assert chart.locator("line.thick").count() == chart.locator("line.thin").count() == 6
    assert chart.locator("line.level").count() == 1
    assert "majority baseline 0.509" in section.inner_text()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    told = page.locator("#tip").inner_text()
    assert "layers kept: 2" in told
    assert "0.767" in told
    assert "[0.746, 0.787]" in told
    assert "[0.716, 0.817]" in told
    section.get_by_role("button", name="ARM 1").click()
    assert chart.locator(".series").count() == 1
    assert section.get_by_role("button", name="ARM 1").get_attribute("aria-pressed") == "false"
    section.get_by_role("button", name="ARM 1").click()
    assert chart.locator(".series").count() == 2
    # Differences are in points, around 0.
    assert section.locator(".chart").nth(1).locator(".zero").count() == 1


def test_intervals_that_tell_nothing_are_told_and_not_drawn(opened: Callable[..., Any]) -> None:
    few = page_samples.curves_section() | {"few": True}
    page = opened(page_samples.small() | {"sections": [few]})
    section = go(page, "curves")
    chart = section.locator(".chart").first
    assert chart.locator(".series").count() == 2
    assert section.locator("line.thick, line.thin, .shade").count() == 0
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    assert "[0.716, 0.817]" in page.locator("#tip").inner_text()


def test_span_is_dragged_and_its_cost_read(opened: Callable[..., Any]) -> None:
    page = opened(page_samples.small())
    section = go(page, "spans")
    bar = section.locator("[role=listbox]")
    box = bar.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 8)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 20, steps=3)
    page.mouse.up()
    told = section.locator(".told").inner_text()
    for part in ("without blocks 2 to 3", "4.00 points", "[3.00, 5.00]", "[1.00, 7.00]", "0.888"):
        assert part in told
    assert "Not 0 by the band of all spans" in told
    assert section.locator(".chosen [data-span='1,2']").count() == 2
    bar.focus()
    page.keyboard.press("Home")
    assert "without block 1" in section.locator(".told").inner_text()
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    assert "without blocks 1 to 3" in section.locator(".told").inner_text()
    page.keyboard.press("Shift+ArrowLeft")
    assert "without blocks 1 to 2" in section.locator(".told").inner_text()
    assert bar.locator("[aria-selected=true]").all_inner_texts() == ["1", "2"]
    # A dot where the band leaves out 0, in all but two cells.
    assert section.locator(".cells circle.dot").count() == 4
    at(section, 0, 0).click()
    assert "7.00 points" in section.locator(".told").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_light_and_dark(opened: Callable[..., Any], scheme: str) -> None:
    page = opened(page_samples.small(), color_scheme=scheme)
    page.evaluate("document.querySelectorAll('*').forEach(n => { n.style.transition = 'none'; })")

    def ratio(selector: str) -> float:
        color = page.locator(selector).first.evaluate("n => getComputedStyle(n).color")
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        low, high = sorted([luminance(color), luminance(ground)])
        return (high + 0.05) / (low + 0.05)

    ground = luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert (ground < 0.05) == (scheme == "dark")
    for selector in ("h1", ".findings .sentence", ".basis", ".eyebrow", ".doubt", "nav a"):
        assert ratio(selector) > 4.5, selector
    page.locator("#theme").click()
    turned = luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert (turned < 0.05) == (scheme == "light")
    assert ratio(".basis") > 4.5
    page.reload()
    until(page, READY)
    assert luminance(page.evaluate("getComputedStyle(document.body).backgroundColor")) == turned


def test_nothing_runs_out_of_a_narrow_screen(opened: Callable[..., Any]) -> None:
    long = "a-model-with-a-rather-long-name-that-nobody-wraps/checkpoint-123456789"
    sections = [
        page_samples.map_section(tuned=long, layers=25),
        page_samples.curves_section(model=long, depth=24, names=6),
        page_samples.spans_section(model=long, depth=24),
        page_samples.scores_section() | {"columns": ["a" * 12] * 9, "rows": [[long, *range(8)]]},
        page_samples.lines_section(),
    ]
    page = opened(page_samples.document(sections), width=360, height=740, has_touch=True, is_mobile=True)
    for one in sections:
        go(page, one["id"])
        assert page.evaluate("document.documentElement.scrollWidth") == 360
    at(go(page, "map").locator("[role=grid]").first, 3, 5).tap()
    assert page.locator("#cell").is_visible()
    box = page.locator("#cell").bounding_box()
    assert (box["x"], box["width"]) == (0, 360)
    assert page.locator("#cell").evaluate("n => n.scrollWidth <= n.clientWidth")
    # Fingers need no hover: the tap has told the value in the panel.
    assert "base/5" in page.locator("#cell").inner_text() or long in page.locator("#cell").inner_text()


def test_all_is_drawn_for_print_and_no_control_is_left(opened: Callable[..., Any]) -> None:
    page = opened(page_samples.large(tasks=4, models=1, layers=5), color_scheme="dark")
    assert page.locator(".figure svg.grid").count() < 16
    page.emulate_media(media="print")
    until(page, "document.querySelectorAll('.section.drawn').length === 16")
    assert page.locator(".figure svg.grid").count() == 4 * 3 + 4
    assert page.locator("select:visible, nav:visible, .tools:visible, [role=listbox]:visible").count() == 0
    assert page.locator("button:visible:not(.entry)").count() == 0
    assert page.locator(".findings li:visible").count() == 16
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert luminance(ground) > 0.9
    assert luminance(page.locator("h1").evaluate("n => getComputedStyle(n).color")) < 0.1
    assert page.pdf()[:4] == b"%PDF"


def test_nothing_moves_for_those_who_do_not_want_it(opened: Callable[..., Any]) -> None:
    page = opened(page_samples.small(), reduced_motion="reduce")
    for one in page_samples.small()["sections"]:
        go(page, one["id"])
    times = page.evaluate(
        "[...document.querySelectorAll('*')].map(n => getComputedStyle(n)).filter("
        "s => s.transitionDuration !== '0s' || s.animationName !== 'none').length"
    )
    assert times == 0


def test_names_stay_text(opened: Callable[..., Any]) -> None:
    page = opened(page_samples.hostile())
    for one in page_samples.hostile()["sections"]:
        go(page, one["id"])
    at(page.locator("#map [role=grid]").first, 0, 1).hover()
    assert page_samples.SCRIPT in page.locator("#tip").inner_text()
    at(page.locator("#map [role=grid]").first, 0, 1).click()
    assert page_samples.SCRIPT in page.locator("#cell h2").inner_text()
    assert page_samples.SCRIPT in page.locator("h1").inner_text()
    assert page_samples.SCRIPT in page.title()
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2


def test_data_can_be_taken_away(opened: Callable[..., Any]) -> None:
    made = page_samples.small()
    page = opened(made)

    def saved(section: str, kind: str) -> tuple[str, str]:
        button = go(page, section).locator(f"[data-save={kind}]")
        with page.expect_download() as waiting:
            button.click()
        return waiting.value.suggested_filename, Path(waiting.value.path()).read_text(encoding="utf-8")

    name, text = saved("map", "csv")
    assert re.fullmatch(r"map-[A-Za-z0-9._-]+\.csv", name)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 2 * 2 * 16
    first = made["sections"][0]["panels"][1]["measures"][1]
    found = next(
        r
        for r in rows
        if (r["panel"], r["measure"], r["left"], r["right"]) == ("FT-ORIG", "svcca", "tuned/2", "base/1")
    )
    assert float(found["value"]) == pytest.approx(first["values"][2][1], rel=1e-6)
    assert float(found["high"]) == pytest.approx(first["high"][2][1], rel=1e-6)
    assert {r["reason"] for r in rows if not r["value"]} == {"the layer is constant"}
    assert list(csv.reader(io.StringIO(saved("scores", "csv")[1]))) == [
        ["model", "seed", "accuracy"],
        ["tuned, first", "1", "0.8881"],
        ["tuned, second", "2", ""],
    ]
    spans = list(csv.DictReader(io.StringIO(saved("spans", "csv")[1])))
    assert [(r["first"], r["last"]) for r in spans] == [
        (str(i), str(j)) for i in (1, 2, 3) for j in range(i, 4)
    ]
    curves = list(csv.DictReader(io.StringIO(saved("curves", "csv")[1])))
    assert len(curves) == 3 * 3 + 1
    assert len(saved("lines", "csv")[1].splitlines()) == 1 + 2 * 40
    assert json.loads(saved("curves", "json")[1])["curves"][0]["name"] == "ARM 0"


def test_command_can_be_copied(opened: Callable[..., Any]) -> None:
    page = opened(page_samples.small(), permissions=["clipboard-read", "clipboard-write"])
    page.bring_to_front()  # a page that is not in front is lent no clipboard
    button = page.get_by_role("button", name="Copy the command")
    # Written down as it is told: the word is gone again sooner than a busy machine looks.
    button.evaluate(
        "node => { window.told = [];"
        " const watch = new MutationObserver(() => window.told.push(node.textContent));"
        " watch.observe(node, { childList: true }); }"
    )
    button.click()
    until(page, "window.told.length > 0")
    assert page.evaluate("window.told[0]") == "Copied"
    assert page.evaluate("navigator.clipboard.readText()") == "microtome compare base tuned --out out"
    until(page, "window.told.at(-1) === 'Copy'")


def _opening(page: Any) -> float:
    """Milliseconds until the page was ready and painted, by its own clock."""
    until(page, "performance.getEntriesByType('paint').length > 0")
    return page.evaluate(
        "Math.max(...performance.getEntriesByType('paint').map(e => e.startTime),"
        " performance.getEntriesByName('microtome-ready')[0].startTime)"
    )


def test_large_report_opens_at_once_and_draws_what_is_near(opened: Callable[..., Any]) -> None:
    made = page_samples.large()
    page = opened(made)
    assert page.locator(".section.drawn").count() < 8
    # What else the machine does counts against one try, hardly against three.
    taken = [_opening(page)]
    while min(taken) > OPEN_WITHIN and len(taken) < 3:
        page.reload()
        until(page, READY)
        taken.append(_opening(page))
    assert min(taken) < OPEN_WITHIN
    # A jump over many figures ends where it should, also after those around it are drawn.
    page.locator("nav a[data-for=t7m1-spans]").click()
    page.locator("[id=t7m1-spans].drawn").wait_for(state="attached")
    until(page, "Math.abs(document.getElementById('t7m1-spans').getBoundingClientRect().top) < 60")
    assert page.locator(".section.drawn").count() < 30


def test_figure_that_cannot_be_drawn_leaves_the_others(browser: Any, tmp_path: Path) -> None:
    broken = page_samples.curves_section() | {"curves": [{"name": "no numbers"}]}
    made = page_samples.document([broken, page_samples.spans_section()])
    page = browser.new_page()
    page.goto(write_page(made, tmp_path / "report.html").as_uri())
    until(page, READY)
    assert "This figure could not be drawn" in go(page, "curves").inner_text()
    assert go(page, "spans").locator("[role=grid]").count() == 1
    page.close()


def test_sparse_documents_are_drawn(opened: Callable[..., Any]) -> None:
    bare = page_samples.map_section()
    for panel in bare["panels"]:
        for measure in panel["measures"]:
            measure |= dict.fromkeys(("low", "high", "null_mean", "z", "p"))
    bare |= {"layers": {}, "blocks": []}
    odd = page_samples.curves_section() | {"points": 1, "lines": {}, "x_is_layer": False, "x_label": "order"}
    odd["curves"] = [
        {"name": "one", "x": ["reversed", "shuffled"], "values": [12.0, None], "n": 10, "note": ""}
        | dict.fromkeys(("low", "high", "band_low", "band_high"))
    ]
    steep = page_samples.spans_section() | {"points": 1, "score": "perplexity"}
    steep["values"] = [[900.0, 2.0, None], [None, -1.0, 3.0], [None, None, 1.5]]
    page = opened(page_samples.document([bare, odd, steep]))
    section = go(page, "map")
    assert section.locator("select[data-choice=show]").count() == 0
    at(section.locator("[role=grid]").first, 1, 1).click()
    assert "The spectra of these layers are not in the result." in page.locator("#cell").inner_text()
    page.keyboard.press("Escape")
    assert go(page, "curves").locator(".missing").count() == 1
    spans = go(page, "spans")
    assert at(spans, 0, 2).get_attribute("fill") == "url(#hatch)"
    assert "Hatched: undefined" in spans.inner_text()
