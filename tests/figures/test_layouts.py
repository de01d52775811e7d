"""Every layout draws from the results of a study, at its exact size, with a caption; tables parse."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from figures.resulting import make_curve, make_result, make_spans
from figures.test_heatmap import decay, make_map
from microtome.cli import main
from microtome.errors import InputError, UnknownNameError
from microtome.figures.layouts.sources import by_task
from microtome.figures.layouts.table import LAYOUTS, draw_layout, find_layout
from microtome.figures.layouts.tables import ResultTable, write_tables
from microtome.findings.blocks import Block, BlockFinding
from microtome.findings.maps import Map
from microtome.findings.record import Maps
from microtome.findings.results import Result
from microtome.findings.stackblocks import StackBlocks
from microtome.findings.words import fine_tuned_name
from microtome.studies.results import StudyResult, StudyResults, write_results

# Two encoders of different depth.
MODELS, TASKS, DEPTHS = ("roberta", "albert"), ("rte", "cola"), {"roberta": 6, "albert": 8}
FORMATS = (".pdf", ".svg", ".png")


@dataclass(frozen=True)
class Content:
    """A result at hand, in the place of a folder."""

    table: str
    verb: str
    model: str
    task: str
    content: Any
    seed: int | None = None

    @property
    def name(self) -> str:
        """Its path among the results."""
        return "/".join(filter(None, (self.table, self.model, self.task)))

    @property
    def document(self) -> Any:
        """Of a fine-tuning."""
        return self.content


def names_of(*models: str, first: int = 0, depth: int = 6) -> list[str]:
    return [f"{model}/{layer}" for model in models for layer in range(first, depth + 1)]


def make_maps(*models: str, depth: int = 6, cls: bool = False, measures: Any = ("linear_cka",)) -> Maps:
    """Maps of several models; rows of first tokens have no layer 0."""
    names = names_of(*models, depth=depth)
    values = decay(len(names), len(names))
    if cls:
        undefined = [k for k, name in enumerate(names) if name.endswith("/0")]
        values[undefined] = values[:, undefined] = np.nan
    maps = [make_map(values, names, names, measure=name, symmetric=True) for name in measures]
    block = Block(first=3, last=depth - 1, inside=0.9, outside=0.5, margin=0.4, certain=True)
    finding = BlockFinding(layers=depth, used=tuple(range(depth)), left_out=(), blocks=(block,))
    numbered = names_of(models[-1], first=1, depth=depth)
    blocks = StackBlocks(stack=models[-1], measure=measures[0], names=tuple(numbered), finding=finding)
    return Maps(maps, blocks=[blocks] if cls else [])


def score(depth: int) -> np.ndarray:
    return np.linspace(0.5, 0.9, depth)


def make_results() -> Iterator[Content]:
    """One result of every kind."""
    for model, task in product(MODELS, TASKS):
        depth, tuned = DEPTHS[model], [fine_tuned_name(model, task, seed) for seed in (1, 2)]
        for seed in (1, 2):
            scored = {"measure": "accuracy", "value": 0.7, "low": 0.6, "high": 0.8, "n": 277}
            run = {"model": model, "task": task, "seed": seed, "evaluation": {"score": scored}}
            yield Content("finetune", "finetune", model, task, {"runs": [run]}, seed)
        yield Content("maps", "compare", model, task, make_maps(model, *tuned, depth=depth, cls=True))
        arms = [make_curve(name, score(depth)) for name in ("UNTUNED", "TUNED", "TUNEDORIG", "CONVERGED")]
        majority = {"majority baseline": 0.527}
        yield Content("cut", "truncate", model, task, make_result(task=task, curves=arms, lines=majority))
        yield Content("skip", "skip", model, task, make_result(task=task, spans=(make_spans(depth),)))
        similar = [
            make_curve(f"rsa: {name}", score(depth), axis="layer", arm="")
            for name in ("base to tuned", "between seeds", "in domain", "out of domain")
        ]
        yield Content("change", "change", model, task, make_result(score="similarity", curves=similar))
        yield Content("domains", "domains", model, task, make_result(score="similarity", curves=similar))
        frozen = [make_curve(p, score(3), x=(0, 2, 4), axis="blocks frozen") for p in ("bottom", "top")]
        yield Content("freeze", "freeze", model, task, make_result(task=task, curves=frozen))
        sizes = [
            f"{plan}, library, {n} examples" for plan in ("progressive", "truncated") for n in (500, "5,000")
        ]
        kept = [make_curve(name, score(depth), axis="blocks kept") for name in sizes]
        ends = {"full": 0.9, "scratch, library": 0.5}
        plans = {"blocks": "first block re-initialized", "inverse": "first block kept"}
        first = [make_curve(f"{plan}, library", score(4), axis=axis) for plan, axis in plans.items()]
        yield Content(
            "reinit", "reinit", model, task, make_result(task=task, curves=[*kept, *first], lines=ends)
        )
        dropped = [
            make_curve(n, score(3), x=(2, 4, 6), axis="blocks dropped") for n in ("top", "bottom", "random")
        ]
        yield Content("drop", "drop", model, task, make_result(task=task, curves=dropped))
        probes = [
            make_curve(f"{name} (published)", score(depth), axis="layer")
            for name in (model, "random baseline")
        ]
        probed = make_result(task=task, model=model, curves=probes, more={"probe": "published"})
        yield Content("probe", "probe", model, task, probed)
    orders = [make_curve(f"{t}: random", score(10), axis="seed of the order", arm="random") for t in TASKS]
    levels = {
        f"{task}: {name}": value for task in TASKS for name, value in (("full", 0.95), ("scratch", 0.4))
    }
    joint = make_result(task=", ".join(TASKS), curves=orders, lines=levels, experiment="permutation")
    yield Content("permute", "permute", "roberta", "", joint)
    for task in TASKS:
        yield Content("pairs", "compare", "", task, make_maps("roberta", "albert", "electra", cls=True))
    measures = ("neuron_correlation", "svcca", "linear_cka")
    yield Content("all", "compare", "", "", make_maps("bert", "xlnet", "gpt", measures=measures))
    yield Content("random", "compare", "roberta", "", make_maps("roberta", "roberta (random)"))
    yield Content("attention", "compare", "", "", make_maps("bert", "xlnet", measures=("attention_js",)))
    over_tasks = ("roberta", "roberta on rte (seed 1)", "roberta on cola (seed 1)")
    for table, measure in (("tuned", "linear_cka"), ("tuned attention", "attention_js")):
        yield Content(table, "compare", "roberta", "", make_maps(*over_tasks, measures=(measure,)))
    for model, names in (("", ("bert", "xlnet")), ("roberta", over_tasks)):
        read = [
            make_curve(f"{name}: {arm}", score(7) - 1, axis="layer", arm=arm, model=name)
            for name in names
            for arm in ("beyond rotations", "published, as coded")
        ]
        localized = make_result(experiment="localization", score="localization", curves=read)
        yield Content("localize", "localize", model, "", localized)


def study_of(contents: Any) -> Any:
    facts: dict[str, Any] = {"title": "A study", "paper": "phang2021", "claims": ()}
    return StudyResults(name="study", models=MODELS, tasks=TASKS, results=tuple(contents), **facts)


@pytest.fixture(scope="module")
def study() -> Any:
    return study_of(make_results())


FIGURES = [name for name, layout in LAYOUTS.items() if layout.name != "freezing" or layout.paper != "wu2020"]


@pytest.mark.parametrize("name", FIGURES)
def test_every_layout_draws_at_its_exact_width(name: str, study: Any, tmp_path: Path) -> None:
    from matplotlib.image import imread

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure, beside = draw_layout(study, name, tmp_path / "figure.png", command="microtome figure")
    tall, wide = imread(figure).shape[:2]
    assert wide / 300 * 25.4 == pytest.approx(84, abs=0.1)
    assert tall < 300 / 25.4 * 250
    caption = beside.read_text()
    assert re.search(r"n = [\d,]+( to [\d,]+)? (rows|examples)", caption), caption
    assert caption.endswith("Drawn by: microtome figure\n")


@pytest.mark.parametrize(
    "name, words",
    [
        ("phang2021:four-panel", {"FT-FT", "1", "6"}),
        ("phang2021:truncation", {"UNTUNED", "rte, albert"}),
        ("wu2020:maps", {"bert", "gpt", "SVCCA"}),
    ],
)
@pytest.mark.parametrize("wide, size", [("page", 174), ("slide", 254)])
def test_other_widths(name: str, words: set[str], wide: str, size: int, study: Any, tmp_path: Path) -> None:
    figure, _ = draw_layout(study, name, tmp_path / "figure.svg", wide=wide)
    root = ElementTree.parse(figure).getroot()
    assert float(str(root.get("width")).removesuffix("pt")) / 72 * 25.4 == pytest.approx(size, abs=0.1)
    texts = ["".join(part.itertext()).strip() for part in root.iter("{http://www.w3.org/2000/svg}text")]
    assert words <= set(texts), "text stays text"


def test_results_that_were_changed_are_refused_in_one_sentence(study: Any, tmp_path: Path) -> None:
    one = study.one(verb="truncate")
    changed = study_of([replace(one, content=replace(one.content, task=3, curves=(3,)))])
    with pytest.raises(InputError, match="a result of study must be as microtome wrote it"):
        draw_layout(changed, "phang2021:truncation", tmp_path / "a.png")
    with pytest.raises(InputError, match="a result of study must be as microtome wrote it"):
        write_tables(changed, tmp_path)


@pytest.mark.parametrize("suffix", FORMATS)
def test_files_are_reproducible_and_never_replace_others(suffix: str, study: Any, tmp_path: Path) -> None:
    paths = [draw_layout(study, "phang2021:7", tmp_path / f"{k}{suffix}")[0] for k in range(2)]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    draw_layout(study, "phang2021:7", paths[0])  # one's own may be replaced
    paths[0].write_bytes(b"mine")
    with pytest.raises(InputError, match="must be a new file, or a figure that microtome drew"):
        draw_layout(study, "phang2021:7", paths[0])


def drawn(study: Any, name: str, **options: Any) -> Any:
    """The panels of a figure and its caption, as they are before they are saved."""
    from microtome.figures.layouts.sheet import Drawing

    kept: list[Any] = []
    save = Drawing.save
    try:
        Drawing.save = lambda self, *_: (kept.append(self), ())[1]  # pyright: ignore
        draw_layout(study, name, "unused.png", **options)
    finally:
        Drawing.save = save
    return kept[0]


def test_the_four_panels_are_parts_of_one_map_without_layer_0(study: Any) -> None:
    figure = drawn(study, "phang2021:four-panel", model="albert", task="cola").figure
    panels = {axes.get_title(): axes for axes in figure.axes if axes.get_title()}
    assert list(panels) == ["ORIG-ORIG", "FT-ORIG", "FT-FT", "FT1-FT2"]
    names = names_of("albert", "albert on cola (seed 1)", "albert on cola (seed 2)", depth=8)
    values = decay(len(names), len(names))
    expected = values[np.ix_(range(10, 18), range(1, 9))]
    assert np.allclose(panels["FT-ORIG"].collections[0].get_array(), expected), "tuned on the vertical axis"
    assert not panels["FT-FT"].yaxis_inverted()
    assert {axes.collections[0].get_clim() for axes in panels.values()} == {(0.0, 1.0)}
    assert all("0" not in [t.get_text() for t in axes.get_xticklabels()] for axes in panels.values())


def test_certain_blocks_alone_are_outlined() -> None:
    maps = make_maps("bert", "other", "bert on rte (seed 1)", cls=True)
    runs = {"runs": [{"model": "bert", "task": "rte", "seed": 1, "evaluation": {"score": {}}}]}
    contents = [
        Content("finetune", "finetune", "roberta", "rte", runs),
        Content("m", "compare", "roberta", "rte", maps),
    ]
    (axes, *_) = drawn(study_of(contents), "phang2021:ft-ft").figure.axes
    assert [patch.get_bbox().bounds for patch in axes.patches] == [(2.5, 2.5, 3.0, 3.0)] * 2
    (axes, *_) = drawn(study_of(contents), "phang2021:orig-orig").figure.axes
    assert not axes.patches


def test_a_grid_has_tasks_below_each_other_in_a_column_and_beside_each_other_on_a_page(study: Any) -> None:
    for wide, rows in (("column", TASKS), ("page", MODELS)):
        figure = drawn(study, "phang2021:ft-ft", wide=wide).figure
        assert [axes.get_ylabel() for axes in figure.axes if axes.get_ylabel() in rows] == list(rows)


def test_legends_name_what_is_drawn_and_what_all_share_is_left_out(study: Any) -> None:
    def legend(name: str) -> list[str]:
        return [text.get_text() for text in drawn(study, name).figure.legends[0].get_texts()]

    assert legend("phang2021:truncation") == ["UNTUNED", "TUNED", "TUNEDORIG", "majority baseline"]
    assert legend("tamkin2020:sizes") == ["first k kept, 500 examples", "first k kept, 5,000 examples"]
    assert legend("tamkin2020:blocks") == ["window re-initialized", "window kept", "full", "scratch"]
    assert legend("wu2020:localization") == ["bert", "xlnet"]
    assert legend("wu2020:tuned-localization") == ["roberta", "rte", "cola"], "short names"
    assert legend("tamkin2020:permutations") == ["random order", "full", "scratch"]


def test_sizes_of_several_tables_are_told_apart() -> None:
    contents = []
    for size in (500, 5000):
        curve = make_curve(f"progressive, library, {size} examples", score(6), axis="blocks kept")
        contents.append(Content(f"reinit {size}", "reinit", "roberta", "rte", make_result(curves=[curve])))
    legend = drawn(study_of(contents), "tamkin2020:sizes").figure.legends[0]
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == ["first k kept, 500 examples", "first k kept, 5000 examples"]


def test_more_panels_than_can_be_read_are_refused() -> None:
    curve = make_curve("UNTUNED", score(6))
    tasks = [f"task-{k}" for k in range(60)]
    cut = [Content("cut", "truncate", "roberta", task, make_result(curves=[curve])) for task in tasks]
    with pytest.raises(
        InputError, match="60 of them do not fit on a slide; choose some with --model or --task"
    ):
        draw_layout(study_of(cut), "phang2021:truncation", "unused.png", wide="slide")


def test_joint_results_are_taken_apart_by_task() -> None:
    curves = [make_curve(f"{task}: random", score(3), arm="random") for task in TASKS]
    parts = by_task("", make_result(task="rte, cola", curves=curves, lines={"cola: full": 0.9}))
    assert [(task, [c.label for c in part.curves], dict(part.lines)) for task, part in parts.items()] == [
        ("rte", ["random"], {}),
        ("cola", ["random"], {"full": 0.9}),
    ]


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_missing_result_is_one_sentence_that_says_what_to_run(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        draw_layout(study_of([]), name, tmp_path / "figure.png")
    assert str(caught.value).startswith(f"{name} must have ")
    assert re.search(r"of `\w+`", str(caught.value))
    assert str(caught.value).endswith("`microtome study run` makes it.")
    assert not list(tmp_path.iterdir())


def test_layouts_have_numbers_and_names_of_their_own() -> None:
    numbers = [f"{layout.paper}:{layout.figure}" for layout in LAYOUTS.values() if layout.figure]
    assert len({*numbers, *LAYOUTS}) == len(numbers) + len(LAYOUTS)
    assert find_layout("phang2021:1").name == "four-panel"
    with pytest.raises(UnknownNameError, match="Did you mean phang2021:truncation"):
        find_layout("phang2021:trunction")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"wide": "poster"}, "--wide must be one of"),
        ({"model": "robert"}, "Did you mean roberta?"),
        ({"task": "rt"}, "Did you mean rte?"),
        ({"measure": "linear_ckb"}, "Did you mean linear_cka?"),
    ],
)
def test_options_are_checked(options: Any, message: str, study: Any, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=re.escape(message)):
        draw_layout(study, "phang2021:1", tmp_path / "figure.png", **options)
    with pytest.raises(InputError, match=r"a file that ends in .png, .svg, .pdf"):
        draw_layout(study, "phang2021:1", tmp_path / "figure.bmp")


def test_the_freezing_table_has_published_scores_beside_ours(study: Any, tmp_path: Path) -> None:
    claim = SimpleNamespace(statistic="score", published=91.09, arguments={"point": {"arm": "top", "x": 4}})
    claim.models, claim.tasks = ("bert",), ("rte",)
    roles = {"bert": ("roberta",)}
    claims = SimpleNamespace(
        claims=[claim], expand=lambda names: [new for name in names for new in roles.get(name, (name,))]
    )
    paths = {
        suffix: draw_layout(study, "wu2020:table-1", tmp_path / f"table{suffix}", claims=claims)[0]
        for suffix in (".csv", ".tex", ".md")
    }
    rows = list(csv.DictReader(io.StringIO(paths[".csv"].read_text())))
    assert len(rows) == 2 * 2 * 5, "models, tasks, and nothing frozen once"
    assert {
        (row["model"], row["frozen"], row["task"]): row["published"] for row in rows if row["published"]
    } == {("roberta", "top 4", "rte"): "91.09"}
    lines = paths[".md"].read_text().splitlines()
    assert lines[0] == "| model | frozen | rte | cola |"
    assert "| roberta | top 4 | 90.0 [88.0, 93.0] (91.09) | 90.0 [88.0, 93.0] |" in lines
    check_latex(paths[".tex"].read_text())


def check_latex(text: str) -> None:
    """Environments and braces match, rows have a cell for each column, and no special character is bare."""
    opened: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if kind == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert not opened
    bare = re.sub(r"\\[\\&%$#_{}]", "", text)
    assert bare.count("{") == bare.count("}")
    assert not {"_", "#"} & set(bare)
    assert bare.count("$") % 2 == 0
    columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", text)
    assert columns
    for line in text.splitlines():
        if line.endswith(r"\\"):
            assert len(re.findall(r"(?<!\\)&", line)) + 1 == len(columns[1]), line


def test_every_result_has_a_table_in_csv_and_latex(tmp_path: Path) -> None:
    results = study_of(result for result in make_results() if result.table != "permute")
    written = write_tables(results, tmp_path)
    assert len(written) == 2 * (1 + len([r for r in results if r.verb != "finetune"]))
    for path in written:
        text = path.read_text()
        if path.suffix == ".tex":
            check_latex(text)
            continue
        head, *rows = csv.reader(io.StringIO(text))
        assert {len(row) for row in rows} == {len(head)}, path
        assert "nan" not in text
    tuned = (tmp_path / "tuned" / "roberta" / "table.tex").read_text()
    assert "rte/1" in tuned
    assert "roberta on rte" not in tuned
    scores = (tmp_path / "finetune" / "table.csv").read_text().splitlines()
    assert scores[1] == "roberta,rte,1,accuracy,0.7,0.6,0.8,277,"


def test_latex_escapes_what_is_special() -> None:
    table = ResultTable(columns=["a_b", "50 %"], rows=[["x & y", 1.5], ["~", None]], caption="{} of #1 \\")
    check_latex(table.tex())
    assert r"x \& y & 1.500 \\" in table.tex()
    assert table.csv() == "a_b,50 %\nx & y,1.5\n~,\n"


def test_the_command_draws_from_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "made"
    truncation: Result = make_result(curves=[make_curve("UNTUNED", score(6)), make_curve("TUNED", score(6))])
    truncation.save(place)
    result = StudyResult("cut", "truncate", "roberta", "rte", None, folder=place)
    write_results(study_of([result]), tmp_path / "report")
    out = tmp_path / "figure.pdf"
    assert (
        main(["figure", str(tmp_path / "report"), "--layout", "phang2021:truncation", "--out", str(out)]) == 0
    )
    assert out.read_bytes().startswith(b"%PDF")
    assert b"/FontFile2" in out.read_bytes(), "text stays text"
    printed = capsys.readouterr().out
    assert "Scores of heads at every layer" in printed
    assert f"Written to {out}" in printed
    assert main(["figure", str(tmp_path / "report"), "--layout", "wu2020:1", "--out", str(out)]) == 2
    assert "wu2020:maps must have a map of several models" in capsys.readouterr().err
    # No option is dropped silently.
    words = ["figure", str(tmp_path / "report"), "--layout", "phang2021:truncation", "--out", str(out)]
    for option in ("measure", "size", "data", "store"):
        assert main([*words, f"--{option}", "x"]) == 2
        assert f"--{option} must be left out for" in capsys.readouterr().err
    assert main(["ls", "layouts"]) == 0
    assert "phang2021:four-panel" in capsys.readouterr().out


def test_maps_of_hundreds_of_layers_are_drawn(tmp_path: Path) -> None:
    maps = make_maps(*(f"model-{k}" for k in range(7)), depth=12)
    similarity_map: Map = next(iter(maps.values()))
    assert similarity_map.shape == (91, 91)
    results = study_of([Content("all", "compare", "", "", maps)])
    assert draw_layout(results, "wu2020:1", tmp_path / "figure.pdf")[0].stat().st_size < 2_000_000


def test_numbers_are_places_and_those_of_the_paper_where_they_are_known() -> None:
    for layout in LAYOUTS.values():
        if layout.figure:
            assert find_layout(f"{layout.paper}:{layout.figure}") is layout
    assert find_layout("phang2021:2").key == "phang2021:orig-orig"
    places = [name for name in LAYOUTS if name.startswith("phang2021:")]
    assert [find_layout(f"phang2021:{place}").key for place in range(1, len(places) + 1)] == places
