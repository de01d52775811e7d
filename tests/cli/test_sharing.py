"""Options that are written together are options of the parser one by one, with the values a user gave."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import pytest
import typer

from figures.resulting import make_result
from microtome.cli import main
from microtome.cli.sharing import Shown, Working, taken_apart

Names = Annotated[list[str], typer.Option("--name")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Two options."""

    size: Annotated[int, typer.Option(min=1)] = 3
    name: Names = field(default_factory=list)


def verb(text: str, *, group: Group, loud: bool = False) -> None:
    """Say it."""
    seen.append((text, group, loud))


seen: list[tuple[str, Group, bool]] = []


def run(*words: str) -> int:
    app = typer.Typer()
    app.command()(taken_apart(verb))
    code = typer.main.get_command(app).main(list(words), standalone_mode=False)
    return code or 0


def test_options_of_a_group_are_parsed_and_put_together() -> None:
    seen.clear()
    assert run("x", "--size", "5", "--name", "a", "--name", "b", "--loud") == 0
    assert run("y") == 0
    assert seen == [("x", Group(size=5, name=["a", "b"]), True), ("y", Group(), False)]
    # A list is a new one each time.
    assert seen[1][1].name is not Group().name


def test_the_help_has_them_in_the_order_of_writing() -> None:
    app = typer.Typer()
    app.command()(taken_apart(verb))
    command = typer.main.get_command(app)
    assert [one.name for one in command.params if one.name != "help"][:4] == ["text", "size", "name", "loud"]
    assert command.help == "Say it."


def test_a_verb_without_groups_stays_itself() -> None:
    def plain(text: str, *, loud: bool = False) -> None: ...

    assert taken_apart(plain) is plain


def test_groups_share_no_name() -> None:
    """One option cannot be of two groups of a verb."""
    from microtome.cli import sharing

    for pair in ((sharing.TaskFiles, sharing.Loading),):
        first, second = (set(each.__dataclass_fields__) for each in pair)
        assert not first & second
    assert Shown().screen.json is False
    assert Working().level == 0.95


@pytest.mark.parametrize(
    "words, kind",
    [
        ("change base tuned --on text", "change"),
        ("compare base --on text", "similarity"),
        ("domains base tuned --inside text --outside text", "domains"),
        ("drop base --task rte", "dropping"),
        ("evaluate tuned --task rte", "evaluate"),
        ("finetune base --task rte", "finetune"),
        ("freeze base --task rte", "freezing"),
        ("localize base --on text", "localization"),
        ("permute base --task rte", "permutation"),
        ("probe base --on text --target upos", "probing"),
        ("reinit base --task rte", "reinitialization"),
        ("similarity x.npy", "similarity"),
        ("skip tuned --task rte", "skipping"),
        ("trajectory run --on text", "trajectory"),
        ("truncate tuned --task rte", "truncation"),
        ("tuning-methods base --task rte", "tuning_ways"),
    ],
)
@pytest.mark.parametrize("dry", [True, False])
def test_the_result_of_another_verb_is_not_replaced(
    words: str, kind: str, dry: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_result(experiment="other").save(tmp_path)
    before = (tmp_path / "result.json").read_bytes()
    given = [*words.split(), "--out", str(tmp_path), *(["--dry-run"] if dry else [])]
    assert main(given) == 2
    said = f"--out must be a new folder or one of an earlier `{kind}`, but {tmp_path} holds the result of "
    assert capsys.readouterr().err.endswith(f"{said}`other`.\n")
    assert (tmp_path / "result.json").read_bytes() == before
