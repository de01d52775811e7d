"""The methods paragraph says what was done, and every source it names is in the bibliography."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import microtome as mt
from microtome.findings.methods import (
    citation_keys,
    cite,
    methods_page,
    methods_paragraph,
    model_borders,
    references,
    split_names,
)
from microtome.findings.record import Maps
from microtome.measures.citations import CITATIONS
from microtome.measures.cka import LINEAR_CKA
from microtome.measures.table import MEASURES

RNG = np.random.default_rng(5)
LEFT = [RNG.normal(size=(80, 4)) for _ in range(3)]
RIGHT = [x + RNG.normal(size=x.shape) for x in LEFT]


def compare(*measures: object, **options: object) -> Maps:
    names = {"names": [f"base/{i}" for i in range(3)], "right_names": [f"tuned/{i}" for i in range(3)]}
    return mt.similarity_matrix(LEFT, RIGHT, list(measures), **{**names, **options})  # pyright: ignore


def test_the_paragraph_says_rows_measures_nulls_intervals_and_seed() -> None:
    maps = compare("debiased_cka", "svcca", certainty=True, halves=4, seed=7, clusters=np.arange(80) // 2)
    said = methods_paragraph(maps)
    for words in (
        "The 3 layers `0` to `2` of `base` were compared with the 3 layers `0` to `2` of `tuned` on 80 rows",
        f"microtome {mt.__version__}",
        "cluster-debiased CKA (pairs within 40 clusters left out) (Song et al. 2012; Kornblith et al. 2019)",
        "threshold 0.99",
        "95 % intervals are by influence function for the value of another sample of the same size, with the",
        "seed 7",
    ):
        assert words in said
    null = maps["svcca"].null_mean
    assert f"{null.min():.2f}" in said
    assert "\n" not in said
    assert "ask for" not in said


def test_without_certainty_no_interval_is_claimed() -> None:
    assert "interval" not in methods_paragraph(compare("linear_cka"))


def test_a_stack_with_itself_is_compared_with_itself() -> None:
    maps = mt.similarity_matrix(LEFT, measures="linear_cka", names=["0", "1", "2"])
    assert "of the left side were compared with each other on 80 rows" in methods_paragraph(maps)


def test_undefined_cells_are_counted_with_their_reason() -> None:
    flat = [LEFT[0], np.ones((80, 4))]
    said = methods_paragraph(mt.similarity_matrix(flat, LEFT, "linear_cka"))
    assert "3 of 6 cells are undefined (a layer is constant over the rows)" in said


def test_every_source_named_is_in_the_bibliography_once() -> None:
    maps = compare("debiased_cka", "linear_cka", "svcca")
    entries = re.findall(r"^@\w+\{(\w+),", references(maps), flags=re.MULTILINE)
    assert sorted(entries) == sorted(set(entries)) == sorted(citation_keys(maps))
    assert set(MEASURES["svcca"].citations) <= set(entries)
    for key in entries:
        assert cite(key) in methods_page(maps)


def test_the_law_behind_a_null_is_cited_where_it_was_used() -> None:
    assert "wachter1980" in citation_keys(compare("svcca"))
    assert "wachter1980" not in citation_keys(compare("svcca", permutations=3))
    assert "wachter1980" not in citation_keys(compare("linear_cka"))


@pytest.mark.parametrize("key", sorted(CITATIONS))
def test_every_source_can_be_said_in_running_text(key: str) -> None:
    assert re.fullmatch(r"[A-Z].* (19|20)\d\d", cite(key))
    assert cite(key).lower().startswith(re.sub(r"\d+", "", key))


def test_a_measure_of_ones_own_needs_no_entry() -> None:
    mine = replace(LINEAR_CKA, name="mine", citations=("nobody2030",))
    maps = compare(mine, "linear_cka")
    assert "`mine`" in methods_paragraph(maps)
    assert "nobody2030" not in references(maps)


def test_the_page_shows_warnings_findings_and_the_command_without_obeying_names() -> None:
    maps = mt.similarity_matrix(
        LEFT, measures="linear_cka", names=["x`*a*`\x1b[31m/0", "x`*a*`\x1b[31m/1", "y"]
    )
    one = maps["linear_cka"]
    told = replace(one, warnings=("[a](b) is few",), provenance={**one.provenance, "command": "microtome x"})
    page = methods_page(Maps([told]), findings=["<b>two</b> blocks"])
    assert "\x1b" not in page
    assert "`x'*a*'\ufffd\\[31m/0`" in page or "`x'*a*'\ufffd[31m/0`" in page
    assert "\\[a\\](b) is few" in page
    assert "\\<b\\>two\\</b\\> blocks" in page
    assert "```console\nmicrotome x\n```" in page


@pytest.mark.parametrize(
    "names, shared, rest",
    [
        (["m/0", "m/1", "m/10"], "m", ("0", "1", "10")),
        (["m/10", "m/11"], "m", ("10", "11")),
        (["layer10", "layer11"], "layer", ("10", "11")),
        (["0", "1"], "", ("0", "1")),
        (["a.b.query", "a.b.key"], "a.b", ("query", "key")),
        (["a/0", "b/0"], "", ("a/0", "b/0")),
        (["m/3"], "m", ("3",)),
        (["alone"], "", ("alone",)),
        (["m/", "m/1"], "", ("m/", "m/1")),
        (["same", "same"], "", ("same", "same")),
        (["encoder", "encoder2"], "", ("encoder", "encoder2")),
        (["m/0", "m/1", "m/final_norm"], "m", ("0", "1", "final_norm")),
    ],
)
def test_names_are_split_into_what_is_shared_and_what_is_not(
    names: list[str], shared: str, rest: tuple[str, ...]
) -> None:
    assert split_names(names) == (shared, rest)


@pytest.mark.parametrize(
    "names, borders",
    [
        (["a/0", "a/1", "b/0", "b/1"], {"a": 0, "b": 2}),
        (["a/0", "b/0", "c/0", "c/norm"], {"a": 0, "b": 1, "c": 2}),
        (["org/a/0", "org/b/0"], {"org/a": 0, "org/b": 1}),
        (["a/0", "a/1"], {"a": 0}),
        (["0", "1"], {}),
        (["a/0", "1"], {}),
        (["a/0", "b/0", "a/1"], {}),  # not together
        ([], {}),
    ],
)
def test_where_the_layers_of_each_model_begin(names: list[str], borders: dict[str, int]) -> None:
    assert model_borders(names) == borders


def test_several_models_are_counted_one_by_one() -> None:
    names = ["base/0", "base/1", "tu`ned/0", "tu`ned/1", "tu`ned/norm"]
    maps = mt.similarity_matrix([*LEFT, *RIGHT[:2]], measures="linear_cka", names=names)
    said = methods_paragraph(maps)
    words = "The layers of 2 models (2 of `base`, 3 of `tu'ned`) were compared with each other on 80 rows"
    assert said.startswith(words)
    one = maps["linear_cka"]
    facts = {"texts": {"name": "tree*bank"}, "rows": {"what": "one row per word: its last sub-word"}}
    told = Maps([replace(one, provenance={**one.provenance, **facts})])
    assert "The rows are of `tree*bank`: one row per word: its last sub-word." in methods_paragraph(told)
    assert "The rows are of" not in said
