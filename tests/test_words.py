"""Pages, help texts and docstrings use the words of the field; see docs/glossary.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "microtome"
# Expressions that readers do not search for, and what stands in their place.
WORDS = {
    r"(?:drawn|draws?|drew|drawing)(?: \w+)? anew": "re-initialized",
    r"redr(?:aw|ew)\w*": "re-initialized",
    r"(?:random )?\btwins?\b": "random baseline, randomly initialized copy",
    r"\bway back\b": "backward pass",
    r"\babreast\b": "batched over seeds (vmap)",
    r"\bplayed again\b": "CUDA graph",
    r"\bby heart\b": "memorize",
    r"\bforet(?:ell|old)\w*": "predict",
    r"\berr(?:s|ed)? together\b": "are correlated",
    r"labels drawn at random for each type": "control task",
    r"\bmost frequent answer\b": "majority baseline",
    r"\breadouts?\b": "linear probe; logistic-regression head",
    r"\bcannot be told\b": "inconclusive",
    r"\b(?:is|are) not told from\b": "is not significantly different from",
    r"\b(?:is|are) sure that\b": "significant",
    r"\bl(?:ies?|ying) clear of\b": "does not overlap",
    r"\bways? of tuning\b": "tuning methods",
    r"\bso many (?:rows|examples|words|sentences|hours|blocks|seeds)\b": "a random sample of N rows",
    r"\bin the mean over\b": "mean of 2 seeds",
    r"\bloss [^.]{0,40}\bis ruled out\b": "a loss above X is excluded at 95 %",
    r"(?<![\w.])-?\.\d": "0.97, with its leading zero",
    r"\b(?:a|one) (?:line|row|curve|value|number|entry|panel|column) an? [a-z]+\b": "one line per job",
    r"\d%": "95 %, with a space",
    r"\bone an? (?:layer|seed|model|job|point|block|word|example|encoder|variant)\b": "one per layer",
}
FORBIDDEN = re.compile("|".join(f"(?P<w{k}>{pattern})" for k, pattern in enumerate(WORDS)), re.IGNORECASE)
# Names of simulated data sets, which seed their draws and so cannot change.
SEEDED_NAMES = re.compile(r"\b(?:icc|lognormal) \.\d")


class Text(NamedTuple):
    """A text of the package, and where it stands."""

    where: str
    text: str


def faults(texts: Iterator[Text]) -> list[str]:
    """One line per forbidden expression: where it stands, what it is, what to write."""
    instead = list(WORDS.values())
    out = []
    for where, text in texts:
        for match in FORBIDDEN.finditer(text):
            number = next(int(name[1:]) for name, part in match.groupdict().items() if part is not None)
            out.append(f"{where}: {match[0]!r}; write: {instead[number]}")
    return out


def page_lines(path: Path) -> Iterator[Text]:
    """Lines of a page without code and without links' addresses."""
    fenced = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced:
            plain = re.sub(r"`[^`]*`|\]\([^)]*\)", "", SEEDED_NAMES.sub("", line))
            yield Text(f"{path.relative_to(ROOT)}:{number}", plain)


def help_texts(command: Any, path: str = "microtome") -> Iterator[Text]:
    """Help of a command, of its options, and of its commands."""
    yield Text(f"{path} --help", f"{command.help or ''} {command.epilog or ''}")
    for parameter in command.params:
        yield Text(f"{path} --help, {parameter.name}", getattr(parameter, "help", None) or "")
    for name, inner in getattr(command, "commands", {}).items():
        yield from help_texts(inner, f"{path} {name}")


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def docstrings(path: Path) -> Iterator[Text]:
    """Docstrings of a module, and of its public classes and functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text = ast.get_docstring(node, clean=False)
        if text is None or getattr(node, "name", "").startswith("_"):
            continue
        start = node.body[0].lineno
        for number, line in enumerate(text.splitlines(), start):
            if line.lstrip().startswith((">>>", "...")):
                continue
            yield Text(f"{path.relative_to(ROOT)}:{number}", re.sub(r"`[^`]*`", "", line))


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", "docs/*.md", "src/microtome/zoo/encoders/*/*.md"]
)
def test_pages_use_the_words_of_the_field(page: str) -> None:
    paths = sorted(ROOT.glob(page))
    assert paths
    found = [fault for path in paths for fault in faults(page_lines(path))]
    assert not found, "\n".join(found)


def test_help_uses_the_words_of_the_field() -> None:
    from microtome.cli.app import command

    found = faults(help_texts(command()))
    assert not found, "\n".join(found)


def test_docstrings_use_the_words_of_the_field() -> None:
    found = [fault for path in modules() for fault in faults(docstrings(path))]
    assert not found, "\n".join(found)


def test_module_docstrings_state_what_a_module_is() -> None:
    asking = [
        f"{path.relative_to(ROOT)}: {first}"
        for path in modules()
        if "?" in (first := (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0])
    ]
    assert not asking, "\n".join(asking)


@pytest.mark.parametrize(
    "text",
    [
        "Weights are drawn anew.",
        "A random twin is the floor.",
        "The way back takes half.",
        "It cannot be told here.",
        "accuracy .97",
        "A loss of 1 point is ruled out.",
        "A line a job.",
        "95% intervals",
    ],
)
def test_a_forbidden_word_is_named_with_its_place_and_replacement(text: str) -> None:
    (fault,) = faults(iter([Text("docs/page.md:3", text)]))
    assert re.match(r"docs/page\.md:3: '.+'; write: .+", fault)


@pytest.mark.parametrize(
    "text", ["0.97 of 3.5", "e.g. 1.5", "at https://x.org/a.html", "so many that", "told apart"]
)
def test_other_words_are_left_alone(text: str) -> None:
    assert not faults(iter([Text("x", text)]))
