from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from microtome.corpora.conllu import COLUMNS
from microtome.corpora.examples import Example
from microtome.corpora.opening import corpus
from microtome.errors import InputError

SAMPLE = """\
# newdoc id = letters
# sent_id = letters-1
# newpar
# text = I can't, won't.
1\tI\tI\tPRON\tPRP\tPerson=1\t2\tnsubj\t2:nsubj\t_
2-3\tcan't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
2\tca\tcan\tAUX\tMD\t_\t0\troot\t0:root\t_
3\tn't\tnot\tPART\tRB\t_\t2\tadvmod\t2:advmod\t_
4\t,\t,\tPUNCT\t,\t_\t6\tpunct\t6:punct\t_
5-6\twon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
5\two\twill\tAUX\tMD\t_\t2\tconj\t2:conj\t_
6\tn't\tnot\tPART\tRB\t_\t5\tadvmod\t5:advmod\t_
6.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t2:conj\t_
7\t.\t.\tPUNCT\t.\t_\t2\tpunct\t2:punct\t_

# sent_id = letters-2
0.1\tI\tI\tPRON\tPRP\t_\t_\t_\t1:nsubj\t_
1\tWent\tgo\tVERB\tVBD\t_\t0\troot\t0:root\tSpaceAfter=No
2\t!\t!\tPUNCT\t.\t_\t1\tpunct\t1:punct\tSpaceAfter=No

"""


def read(tmp_path: Path, content: str, **options) -> list[Example]:
    path = tmp_path / "a.conllu"
    path.write_text(content, encoding="utf-8")
    return list(corpus(path, **options))


def sentence(*heads: int, comments: str = "") -> str:
    rows = [f"{i}\tw{i}\t_\t_\t_\t_\t{head}\t_\t_\t_\n" for i, head in enumerate(heads, start=1)]
    return comments + "".join(rows) + "\n"


# What is read


def test_words(tmp_path: Path) -> None:
    first, second = read(tmp_path, SAMPLE)
    assert (first.id, first.group, first.text) == ("letters-1", "letters", "I can't, won't.")
    assert first.words == ("I", "ca", "n't", ",", "wo", "n't", ".")
    assert tuple(first.marks) == COLUMNS[2:]
    assert first.marks["upos"] == ("PRON", "AUX", "PART", "PUNCT", "AUX", "PART", "PUNCT")
    assert first.marks["head"] == ("2", "0", "2", "6", "2", "5", "2")
    assert first.marks["deps"][1] == "0:root"
    assert (second.id, second.group, second.text) == ("letters-2", "letters", "Went!")
    assert second.words == ("Went", "!")
    assert all(len(mark) == len(e.words or ()) for e in (first, second) for mark in e.marks.values())


def test_surface_tokens(tmp_path: Path) -> None:
    first, second = read(tmp_path, SAMPLE, units="tokens")
    assert first.words == ("I", "can't", ",", "won't", ".")
    assert dict(first.marks) == {
        "lemma": ("I", "can+not", ",", "will+not", "."),
        "upos": ("PRON", "AUX+PART", "PUNCT", "AUX+PART", "PUNCT"),
        "xpos": ("PRP", "MD+RB", ",", "MD+RB", "."),
        "feats": ("Person=1", "_+_", "_", "_+_", "_"),
        "misc": ("_", "SpaceAfter=No", "_", "SpaceAfter=No", "_"),
    }
    assert second.words == ("Went", "!")


def test_a_text_is_put_together_where_none_is_given(tmp_path: Path) -> None:
    content = SAMPLE.replace("# text = I can't, won't.\n", "")
    assert [e.text for e in read(tmp_path, content)] == ["I can't, won't.", "Went!"]


def test_ids_where_sentences_have_none_or_the_same(tmp_path: Path) -> None:
    names = ["", "a", "a", "3", "", "5", "7", ""]
    content = "".join(sentence(0, comments=f"# sent_id = {n}\n" if n else "") for n in names)
    ids = [e.id for e in read(tmp_path, content)]
    # The third sentence takes its number, so the fourth cannot be called 3; so do the fifth and the sixth.
    assert ids == ["1", "a", "3", "4", "5", "6", "7", "8"]
    content = sentence(0, comments="# sent_id = 2\n") + sentence(0)
    assert [e.id for e in read(tmp_path, content)] == ["2", "#2"]


def test_documents(tmp_path: Path) -> None:
    heads = ["", "# newdoc id = x\n", "", "# newdoc\n", "", "# newdoc id = y\n"]
    content = "".join(sentence(0, comments=head) for head in heads)
    assert [e.group for e in read(tmp_path, content)] == ["1", "x", "x", "newdoc 2", "newdoc 2", "y"]


def test_what_real_files_have(tmp_path: Path) -> None:
    # Blank lines wherever, none at the end, Windows line ends, words with blanks, and one like a comment.
    rest = "\t_" * 8
    content = f"\n\n1\t10 000{rest}\r\n\r\n \n1\t#tag{rest}\r\n2\t_{rest}"
    first, second = read(tmp_path, content)
    assert first.words == ("10 000",)
    assert first.marks["misc"] == ("_",)
    assert second.words == ("#tag", "_")


COLUMN = st.text(
    st.characters(exclude_characters="\t\r\n", exclude_categories=["Cs"]), min_size=1, max_size=5
)


@st.composite
def sentences(draw) -> tuple[str, list[list[str]], list[list[str]]]:
    """A sentence as text, its words, and its surface tokens."""
    size = draw(st.integers(1, 6))
    lines, words, tokens = [], [], []
    left = 0  # words of a multi-word token still to come
    for number in range(size + 1):
        if number:
            row = [str(number), *draw(st.lists(COLUMN, min_size=9, max_size=9))]
            row[6] = draw(st.sampled_from(["_", *map(str, range(size + 1))]))
            if not left and draw(st.booleans()):
                left = draw(st.integers(1, size + 1 - number))
                several = [f"{number}-{number + left - 1}", draw(COLUMN), *"_______", draw(COLUMN)]
                lines.append("\t".join(several))
                tokens.append(several)
            elif not left:
                tokens.append(row)
            left = max(left - 1, 0)
            lines.append("\t".join(row))
            words.append(row)
        for node in range(draw(st.integers(0, 2))):
            lines.append("\t".join([f"{number}.{node + 1}", *draw(st.lists(COLUMN, min_size=9, max_size=9))]))
    return "\n".join(lines), words, tokens


@settings(deadline=None)
@given(st.lists(sentences(), min_size=1, max_size=3), st.sampled_from(["\n", "\r\n"]))
def test_any_sentences(tmp_path_factory, given_sentences, end: str) -> None:
    path = tmp_path_factory.mktemp("conllu") / "a.conllu"
    content = "".join(f"{text}\n\n" for text, _, _ in given_sentences)
    path.write_bytes(content.replace("\n", end).encode())
    examples = list(corpus(path))
    assert [e.words for e in examples] == [tuple(row[1] for row in words) for _, words, _ in given_sentences]
    for example, (_, words, _) in zip(examples, given_sentences, strict=True):
        assert dict(example.marks) == {
            name: tuple(row[i] for row in words) for i, name in enumerate(COLUMNS) if i > 1
        }
    surface = [e.words for e in corpus(path, units="tokens")]
    assert surface == [tuple(row[1] for row in tokens) for _, _, tokens in given_sentences]


def test_another_reader_agrees(tmp_path: Path) -> None:
    other = pytest.importorskip("conllu")
    expected = [[t for t in s if isinstance(t["id"], int)] for s in other.parse(SAMPLE)]
    examples = read(tmp_path, SAMPLE)
    assert [list(e.words or ()) for e in examples] == [[t["form"] for t in s] for s in expected]
    assert [list(e.marks["upos"]) for e in examples] == [[t["upos"] for t in s] for s in expected]


# What is refused

GOOD = "1\tA\t_\t_\t_\t_\t0\t_\t_\t_\n"


@pytest.mark.parametrize(
    "content, words",
    [
        ("1\tA\t_\t_\n", "line 1 of .* must have 10 columns, separated by tabs, but it has 4"),
        (
            GOOD + "2 B _ _ _ _ 0 _ _ _\n",
            "line 2 of .* must have 10 columns, separated by tabs, but it has 1",
        ),
        (GOOD.replace("\n", "\t_\n"), "must have 10 columns, separated by tabs, but it has 11"),
        ("1\t\t_\t_\t_\t_\t0\t_\t_\t_\n", "line 1 of .* must have no empty column, but form is empty"),
        (GOOD + "# late\n", "line 2 of .* must stand before the words, as a comment, but it does not"),
        (GOOD + GOOD, "line 2 of .* must have the number 2 or one that may stand before it, but got '1'"),
        (GOOD.replace("1", "2", 1), "must have the number 1 .* but got '2'"),
        (GOOD.replace("1", "01", 1), "must have the number 1 .* but got '01'"),
        (GOOD.replace("1", "१", 1), "must have the number 1 .* but got '१'"),
        (GOOD + GOOD.replace("1", "1.2", 1), "must have the number 2 .* but got '1.2'"),
        (GOOD + GOOD.replace("1", "2.1", 1), "must have the number 2 .* but got '2.1'"),
        (GOOD.replace("1", "2-3", 1), "must have the number 1 .* but got '2-3'"),
        (GOOD.replace("1", "1-2", 1) * 2, "line 2 of .* must have the number 1 .* but got '1-2'"),
        (GOOD + GOOD.replace("1", "2-1", 1), "must have the number 2 .* but got '2-1'"),
        (
            GOOD.replace("1", "1-2", 1) + GOOD + "\n",
            "line 1 of .* must be followed by the words up to 2, but the last is 1",
        ),
        (
            "# text = none\n\n" + GOOD,
            "line 1 of .* must be followed by the words of a sentence, but there are none",
        ),
        (GOOD.replace("1", "0.1", 1), "must be followed by the words of a sentence, but there are none"),
        (sentence(0) + sentence(0, 3), "line 4 of .* must have a head between 0 and 2, or _, but got '3'"),
        (sentence(0).replace("0", "9" * 5000), "must have a head between 0 and 1, or _, but got '999"),
        (GOOD.replace("1", "1-" + "9" * 5000, 1), "must have the number 1 .* but got '1-999"),
        (sentence(-1), "must have a head between 0 and 1, or _, but got '-1'"),
    ],
)
def test_sentences_that_break_the_format(tmp_path: Path, content: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(tmp_path, content)


def test_other_units(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="option units must be one of 'words', 'tokens', but got 'chars'"):
        read(tmp_path, SAMPLE, units="chars")
