"""In which layers do single neurons count? The verb `localize`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from .models import ExactOption, HalvesOption, ModelsArgument, OnOption, ReadOption
from .results import show_result
from .sharing import Compared, Loading, Shown, Working

AnyRowsOption = Annotated[
    str | None,
    typer.Option(
        help="What one row is: cls, mean, token or word; token, or word with --exact.", show_default=False
    ),
]

MostOrAllOption = Annotated[
    int,
    typer.Option(
        min=10, help="Rows at most, drawn with the seed; with --exact all, unless another number is given."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyModels(Compared):
    """Which rows models are compared on that need not have the same tokens."""

    rows: AnyRowsOption = None  # pyright: ignore[reportIncompatibleVariableOverride]
    sample: MostOrAllOption = 5_000
    exact: ExactOption = None

    def planned(self, encoders: Sequence[Any], texts: Any, progress: Any) -> Any:
        """The rows that would be compared."""
        from ..experiments.change.localization import choose_rows
        from ..rows.planning import plan_at_most

        return plan_at_most(texts.examples, encoders, choose_rows(**self.given), progress=progress)


def localize(
    context: typer.Context,
    models: ModelsArgument,
    *,
    on: OnOption,
    read: ReadOption = [],  # noqa: B006 - typer reads the default and changes nothing
    direction: Annotated[
        str,
        typer.Option(help="in: neurons of other layers are found in this one; out: its own in the others."),
    ] = "in",
    rotations: Annotated[int, typer.Option(min=2, help="Random rotations of each pair of layers.")] = 5,
    halves: HalvesOption = 20,
    compared: AnyModels,
    loading: Loading,
    working: Working,
    shown: Shown,
) -> None:
    """Score layers for what their similarity owes to single neurons, beyond what rotated layers give."""
    from ..errors import must
    from ..experiments.change.localization import localized
    from ..runtime import using_threads
    from .models import cost, read_texts

    screen = shown.screen
    if direction not in ("in", "out"):
        raise must("--direction", "in or out", direction)
    shown.check(working, "localization")
    texts = read_texts(on, read)
    chosen: dict[str, Any] = {"direction": direction, "rotations": rotations, "halves": halves}
    with screen.working() as progress, using_threads(working.threads):
        encoders = loading.models(models, working.device)
        said, document = cost(encoders, compared.planned(encoders, texts, progress))
    if working.dry_run:
        screen.result({"format": "microtome/plan/1", **document}, said)
        return
    screen.note(said)
    with screen.working() as progress, using_threads(working.threads):
        result = localized(
            {one.name: one for one in encoders},
            texts,
            level=working.level,
            store=working.store,
            device=working.device,
            progress=progress,
            command=context.obj or "",
            **chosen,
            **compared.given,
        )
    show_result(screen, result, shown.out)
