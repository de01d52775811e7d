"""The shape of the code: names, sizes and signatures stay within limits, which may only become stricter."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import microtome
from microtome import analysis

ROOT = Path(microtome.__file__).parent
# Local names that say nothing of what they hold.
VAGUE = frozenset(
    [
        "found",
        "one",
        "each",
        "told",
        "said",
        "given",
        "asked",
        "known",
        "some",
        "other",
        "others",
        "chosen",
        "every",
        "whole",
        "alone",
        "wanted",
        "kept",
        "read",
        "shown",
        "made",
        "both",
        "more",
        "drawn",
        "right",
        "own",
        "here",
        "there",
        "rest",
        "mine",
    ]
)
# Carried by `Context`: signatures that still name them.
CARRIED = {"progress": 10, "store": 10, "command": 10, "level": 30}
VAGUE_SHARE = 0.015
FOLDER = 20  # modules of a package
MODULE = 400  # lines of a module
# Lines of code, without blank lines, comments and docstrings.
CODE = {"": 48_900, "cli": 1_760, "experiments": 8_570, "findings": 3_450}
QUESTIONS = 0
REUSED = 0
# Called by these names: by the library of the command line, notebooks, authors of families and measures,
# and by tables that put a name together.
CALLED_BY_NAME = frozenset(
    [
        *("parse_args", "format_commands", "format_options", "collect_usage_pieces"),
        *("_repr_html_", "check_encoder", "check_measure", "check_executor"),
        *("probe_spans", "probe_trees", "probe_words", "_masked", "_every", "_replaced"),
    ]
)


@cache
def trees() -> dict[Path, ast.Module]:
    return {path.relative_to(ROOT): ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}


def functions() -> Iterator[tuple[Path, ast.FunctionDef, list[str]]]:
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                yield path, node, [argument.arg for argument in arguments]


# Packages that make, hold or show curves, claims and runs.
TYPED = ("cli", "demonstration", "experiments", "figures", "findings", "inference", "report")
TAKEN_APART = re.compile(
    r"\.(name|unit|note|failure)\.(startswith|endswith|replace|remove\w+|r?partition|r?split)\("
    r"|\bre\.\w+\([^)]*\.(name|unit|note|failure)\b|[\"'] in \w+\.(name|unit|note|failure)\b"
)


def test_nothing_is_read_out_of_names_units_notes_and_failures() -> None:
    hits = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for package in TYPED
        for path in sorted((ROOT / package).rglob("*.py"))
        for line in path.read_text().splitlines()
        if TAKEN_APART.search(line)
    ]
    assert not hits


def test_local_names_are_nouns_of_the_domain() -> None:
    total = vague = 0
    for _, node, _ in functions():
        stored = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        total += len(stored)
        vague += len(stored & VAGUE)
    assert vague / total <= VAGUE_SHARE


@pytest.mark.parametrize("name", CARRIED)
def test_the_context_carries_what_crosses_experiments(name: str) -> None:
    carriers = [f"{path}:{node.name}" for path, node, names in functions() if name in names]
    assert len(carriers) <= CARRIED[name], carriers


def test_module_docstrings_are_statements() -> None:
    asking = [path for path, tree in trees().items() if "?" in (ast.get_docstring(tree) or "").split("\n")[0]]
    assert len(asking) <= QUESTIONS, asking


def test_class_names_are_unique() -> None:
    names = Counter(
        n.name for tree in trees().values() for n in ast.walk(tree) if isinstance(n, ast.ClassDef)
    )
    assert sum(count > 1 for count in names.values()) <= REUSED, sorted(k for k, v in names.items() if v > 1)


def test_folders_are_small() -> None:
    sizes = Counter(path.parent for path in trees())
    assert max(sizes.values()) <= FOLDER, sizes.most_common(3)


def test_modules_are_short() -> None:
    lengths = {str(path): len((ROOT / path).read_text().splitlines()) for path in trees()}
    assert {path: lines for path, lines in lengths.items() if lines > MODULE} == {}


@pytest.mark.parametrize("package", CODE)
def test_packages_do_not_grow(package: str) -> None:
    assert sum(map(code_lines, sorted((ROOT / package).rglob("*.py")))) <= CODE[package]


def code_lines(path: Path) -> int:
    source = path.read_text()
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in skipped | {tokenize.ENDMARKER}:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(node) is not None
        ):
            code.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(code)


def test_every_name_is_used() -> None:
    """A name that only its own definition mentions is dead code, or only tests or benchmarks need it."""
    uses: Counter[str] = Counter()
    for tree in trees().values():
        uses += mentions(tree)
    public = {*vars(analysis), *(path.rpartition(".")[2] for path in microtome._PUBLIC.values())}
    unused = [
        f"{path}:{node.lineno} {name}"
        for path, tree in trees().items()
        for node, name in definitions(tree)
        if not name.startswith("__") and name not in public | CALLED_BY_NAME
        if uses[name] == mentions(node)[name]
    ]
    assert not unused


def definitions(tree: ast.Module) -> Iterator[tuple[ast.stmt, str]]:
    """Functions, classes with their methods and fields, and constants of a module."""
    for node in [*tree.body, *(part for n in tree.body if isinstance(n, ast.ClassDef) for part in n.body)]:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node, node.name
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name):
                yield node, target.id


def mentions(tree: ast.AST) -> Counter[str]:
    """Names in expressions, attributes, keywords and short strings; imports are no use."""
    names: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            names[node.id] += 1
        elif isinstance(node, ast.Attribute):
            names[node.attr] += 1
        elif isinstance(node, ast.keyword):
            names[node.arg or ""] += 1
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 80:
            names.update(re.findall(r"\w+", node.value))
    return names


# Modules above the encoders that load a model: all others open it with `microtome.training.opening`.
LOADERS = {"training/opening.py"}


def test_models_are_loaded_in_one_place() -> None:
    calls = {
        str(path)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").endswith("encoders.loading")
        and any(alias.name == "load" for alias in node.names)
    }
    assert {name for name in calls if not name.startswith("encoders/")} == LOADERS
