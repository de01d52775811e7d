"""What do the verbs that take models apart share? Their options, and what stands before the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..training.recipe import Recipe

RecipeOption = Annotated[str | None, typer.Option(help="A name of `microtome ls recipes`.")]
SetOption = Annotated[
    list[str],
    typer.Option("--set", help="Another value of the recipe, as rate=2e-5.", show_default=False),
]
SeedsOption = Annotated[str, typer.Option(help="Seeds, as 1,2,3 or 1-3.")]
TrainSizeOption = Annotated[
    int | None, typer.Option(min=1, help="Train on so many examples.", show_default=False)
]
HeadOption = Annotated[
    str | None,
    typer.Option(
        help="stock, jiant, own, or reads=cls,dense=1,pooler=none; the recipe's when absent.",
        show_default=False,
    ),
]
DtypeOption = Annotated[str, typer.Option(help="float32, tf32 (on a GPU), bfloat16 or float16.")]
AtOnceOption = Annotated[int, typer.Option(min=1, max=256, help="Models that train side by side.")]
KeepModelsOption = Annotated[
    bool,
    typer.Option("--keep-models", metavar="", help="Keep the weights of every run, not only its answers."),
]
LevelOption = Annotated[float, typer.Option(help="Promised coverage of intervals and bands.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", metavar="", help="Say what it would do, and stop.")]

Progress = Callable[[str, int, int], None]


def check(
    kind: str | None = None,
    names: Iterable[str] | None = None,
    *,
    device: str = "cpu",
    level: float = 0.95,
    threads: int | None = None,
    store: str | None = None,
    stores: bool = True,
    out: Path | None = None,
) -> None:
    """
    Refuse what cannot work before anything is loaded, in a dry run as in a run.

    Parameters
    ----------
    kind : str, optional
        Of the result, where `out` must not hold another one.
    names : iterable of str, optional
        The files that are to be written; those of every result when absent.
    device, level, threads, store, out
        As every verb has them.
    stores : bool
        Whether the verb uses the store at all.
    """
    from ..errors import must
    from ..findings.record import FILES, check_earlier, check_folder
    from ..runtime import find_device, using_threads
    from ..store.shelf import Shelf

    find_device(device)
    if not 0 < level < 1:
        raise must("--level", "between 0 and 1", level)
    with using_threads(threads):
        pass
    if stores:
        Shelf(store)
    if out is not None:
        if kind is not None:
            check_earlier(out, kind, FILES if names is None else names)
        check_folder(out)


def changed_recipe(recipe: str | None, change: list[str], default: str) -> Recipe:
    """Find a recipe, with the values that a user changed."""
    from ..training.recipe import find_recipe
    from .reading import read_values

    return find_recipe(default if recipe is None else recipe, **read_values(change))


def loading(model: str, revision: str | None, tokenizer: str | None) -> dict[str, Any]:
    """What `load` is called with."""
    return {"source": model, "revision": revision, "tokenizer": tokenizer, "device": "cpu"}


def given_head(head: str | None) -> dict[str, Any]:
    """The head for `finetune`, where a user named one."""
    from .reading import read_head

    return {} if head is None else {"head": read_head(head)}


def counted(count: int, noun: str) -> str:
    """
    Say how many there are of something.

    Examples
    --------
    >>> counted(1, "seed"), counted(1200, "update")
    ('1 seed', '1,200 updates')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
