from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from microtome.corpora.brackets import TRACE
from microtome.corpora.examples import Example
from microtome.corpora.opening import corpus
from microtome.errors import InputError

SAMPLE = r"""
( (S
    (NP-SBJ (PRP We) )
    (VP (VBD cut)
      (NP (CD 1\/2) (-LRB- -LRB-) (JJ thin) (-RRB- -RRB-) (NN slice) (SYM \*) )
      (SBAR (-NONE- 0)
        (S (-NONE- *T*-1) )))
    (. .) ))
(TOP (INTJ (UH Yes)))((FRAG(NN No)
)
)
"""


def read(tmp_path: Path, content: str, **options) -> list[Example]:
    path = tmp_path / "a.mrg"
    path.write_text(content, encoding="utf-8")
    return list(corpus(path, **options))


def test_words_and_tags(tmp_path: Path) -> None:
    first, second, third = read(tmp_path, SAMPLE)
    assert first.words == ("We", "cut", "1/2", "(", "thin", ")", "slice", "*", ".")
    assert first.text == "We cut 1/2 ( thin ) slice * ."
    assert first.marks["xpos"] == ("PRP", "VBD", "CD", "-LRB-", "JJ", "-RRB-", "NN", "SYM", ".")
    assert (second.words, third.words) == (("Yes",), ("No",))
    assert [e.id for e in (first, second, third)] == ["1", "2", "3"]
    assert [e.group for e in (first, second, third)] == ["1", "2", "3"]


def test_escapes_can_be_kept(tmp_path: Path) -> None:
    first = read(tmp_path, SAMPLE, escapes="keep")[0]
    assert first.words == ("We", "cut", r"1\/2", "-LRB-", "thin", "-RRB-", "slice", r"\*", ".")


def test_all_escaped_brackets(tmp_path: Path) -> None:
    names = ("-LRB-", "-RRB-", "-LSB-", "-RSB-", "-LCB-", "-RCB-")
    content = "(X " + " ".join(f"(SYM {name})" for name in names) + ")"
    assert read(tmp_path, content)[0].words == tuple("()[]{}")


def test_a_tree_of_traces_has_no_words(tmp_path: Path) -> None:
    (only,) = read(tmp_path, "( (S (NP (-NONE- *)) (VP (-NONE- *?*))))")
    assert (only.words, only.text, only.marks["xpos"]) == ((), "", ())


ATOM = st.text(
    st.characters(exclude_characters=" \t\r\n\f\v()", exclude_categories=["Cs"]), min_size=1, max_size=6
)
LEAF = st.tuples(st.one_of(ATOM, st.just(TRACE)), ATOM)
TREE = st.recursive(
    LEAF, lambda inner: st.tuples(ATOM, st.lists(inner, min_size=1, max_size=4)), max_leaves=15
)


def written(tree, space: str) -> str:
    label, inside = tree
    if isinstance(inside, str):
        return f"({label}{space}{inside}{space})"
    return f"({label}{space}" + space.join(written(each, space) for each in inside) + ")"


def leaves(tree) -> list[tuple[str, str]]:
    label, inside = tree
    return (
        [(label, inside)] if isinstance(inside, str) else [leaf for each in inside for leaf in leaves(each)]
    )


@settings(deadline=None)
@given(
    st.lists(TREE, min_size=1, max_size=4), st.sampled_from([" ", "\n", "\r\n  ", "\t\n\n"]), st.booleans()
)
def test_any_trees(tmp_path_factory, trees, space: str, wrapped: bool) -> None:
    path = tmp_path_factory.mktemp("trees") / "a.mrg"
    whole = [written(tree, space) for tree in trees]
    path.write_bytes(space.join(f"({space}{tree})" if wrapped else tree for tree in whole).encode())
    examples = list(corpus(path, escapes="keep"))
    expected = [[(tag, word) for tag, word in leaves(tree) if tag != TRACE] for tree in trees]
    assert [list(zip(e.marks["xpos"], e.words or (), strict=True)) for e in examples] == expected


@pytest.mark.parametrize(
    "content, words",
    [
        ("(S (NN a)\n\n(NN b)\n", "line 1 of .* must have its bracket closed, but the file ends before"),
        (
            "(S (NN a))\n(S (NN b)))\n",
            r"line 2 of .* must begin a tree with '\(', but got '\)' outside of all brackets",
        ),
        ("(S (NN a))\nword\n", r"line 2 of .* must begin a tree with '\(', but got 'word' outside"),
        ("(S (NN a) (NP ))", "must have a word or a bracket in every bracket, but one has none"),
        ("()", "must have a word or a bracket in every bracket, but one has none"),
        (
            "(NP Pierre\nVinken)",
            "line 2 of .* must have words in brackets of their own, but 'Vinken' stands beside",
        ),
        ("(NP (NN a) b)", "must have words in brackets of their own, but 'b' stands beside others"),
        ("(NN a (NN b))", "must have a word alone in its bracket, but another bracket follows it"),
    ],
)
def test_brackets_that_are_no_trees(tmp_path: Path, content: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(tmp_path, content)


def test_other_escapes(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="option escapes must be one of 'undo', 'keep', but got 'drop'"):
        read(tmp_path, SAMPLE, escapes="drop")
