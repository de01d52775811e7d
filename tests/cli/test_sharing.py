"""Options that are written together are options of the parser one by one, with the values a user gave."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import typer

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

    for pair in (
        (sharing.Compared, sharing.Working),
        (sharing.Training, sharing.Sampled),
        (sharing.TaskFiles, sharing.Loading),
    ):
        first, second = (set(each.__dataclass_fields__) for each in pair)
        assert not first & second
    assert Shown().screen.json is False
    assert Working().level == 0.95
