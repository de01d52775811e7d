"""How small can a model get at a price that was named before? The verb `prune`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .finetune import ColumnsOption, DataOption, HeldOutOption, PairsOption, TaskOption, note_head
from .models import StoreOption
from .reading import open_noted, read_values, task_options
from .show import DeviceOption, JsonOption, QuietOption, Screen, ThreadsOption
from .surgery import check

if TYPE_CHECKING:
    from ..pruning.opening import Subject
    from ..pruning.pruned import Pruned


def prune(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            metavar="CKPT",
            help="The folder of a fine-tuned model, a language model, or a sentence encoder.",
            show_default=False,
        ),
    ],
    task: TaskOption,
    data: DataOption = None,
    column: ColumnsOption = [],  # noqa: B006 - typer reads the default and changes nothing
    pairs: PairsOption = None,
    held_out: HeldOutOption = None,
    max_drop: Annotated[
        float, typer.Option(help="What may be lost: points of 100, or units of perplexity.")
    ] = 1.0,
    level: Annotated[
        float, typer.Option(help="One-sided: how sure the promise is, over all looks at the same examples.")
    ] = 0.95,
    on: Annotated[
        str | None,
        typer.Option(
            help="The split that chooses and certifies; rest: training examples that were not trained on. "
            "When absent, validation; of a lone table, all rows that the model was not trained on.",
            show_default=False,
        ),
    ] = None,
    certify_on: Annotated[
        str | None, typer.Option(help="A split of its own to certify on.", show_default=False)
    ] = None,
    confirm_on: Annotated[
        str | None, typer.Option(help="A split to look at once, after everything.", show_default=False)
    ] = None,
    share: Annotated[float, typer.Option(help="Share of the examples that choose.")] = 0.5,
    seed: Annotated[int, typer.Option(min=0, help="Of the draw of the examples, and of recovery.")] = 0,
    recover: Annotated[int, typer.Option(min=0, help="Tune each cut for so many updates first.")] = 0,
    recipe: Annotated[
        str, typer.Option(help="Of recovery: a name of `microtome ls recipes`.")
    ] = "devlin2019",
    change: Annotated[
        list[str],
        typer.Option("--set", help="Another value of the recipe, as rate=2e-5.", show_default=False),
    ] = [],  # noqa: B006
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    store: StoreOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Say what it would do, and stop.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder of the smaller model, as from_pretrained reads it, with its card; result.json "
            "and table.parquet lie beside. Only result.json where nothing can be cut."
        ),
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Cut blocks out of a model as long as what it loses stays within a margin, tested on unseen examples."""
    from ..pruning.exporting import check_folder, write_pruned
    from ..pruning.opening import open_subject
    from ..pruning.pruning import check_request
    from ..pruning.pruning import prune as run
    from ..runtime import using_threads

    screen = Screen(json=json, quiet=quiet)
    check(device=device, threads=threads, store=store, out=out)
    values = read_values(change)
    check_request(max_drop, level, recover, values, recipe)
    opened = open_noted(task_options(task, data, column, held_out, pairs), screen)
    roles = {"on": on, "certify_on": certify_on, "confirm_on": confirm_on, "share": share, "seed": seed}
    if out is not None:
        check_folder(out)
    with screen.working(), using_threads(threads):
        subject = open_subject(model, opened, device=device)
        said, document = _plan(subject, opened, {**roles, "learns": recover > 0})
    if dry_run:
        screen.result(document, said)
        return
    screen.note(said)
    with screen.working() as progress, using_threads(threads):
        found = run(
            subject,
            opened,
            max_drop,
            **roles,
            level=level,
            recover=recover,
            recipe=recipe,
            device=device,
            store=store,
            progress=progress,
            command=context.obj or "",
            **values,
        )
    if out is not None:
        write_pruned(found, out)
        told = (
            "the model with its card, result.json and table.parquet"
            if found.certified
            else "result.json, and no model, since nothing can be cut safely"
        )
        screen.note(f"Written to {out}: {told}.")
        note_head(screen, out)
    if json:
        screen.result(found.document(), "")
        return
    _show(screen, found)


def _plan(subject: Subject, task: Any, roles: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Say how many cuts would be scored, and on what."""
    from ..pruning.candidates import ALL_SPANS, first_candidates
    from ..pruning.examples import find_examples

    examples = find_examples(task, subject, **roles)
    cuts = None
    said = f"{subject.name} has {subject.depth} blocks"
    if subject.depth <= ALL_SPANS or subject.model.family.shared:
        found, which = first_candidates(subject.model)
        cuts, said = len(found), f"{said}; {len(found)} cuts would be scored first ({which})"
    chosen, certified = examples.said()
    document = {
        "format": "microtome/plan/1",
        "depth": subject.depth,
        "cuts": cuts,
        "choose": len(examples.choose),
        "certify": len(examples.certify),
        "confirm": None if examples.confirm is None else len(examples.confirm),
    }
    return f"{said}. {chosen}. {certified}.", document


def _show(screen: Screen, found: Pruned) -> None:
    from ..findings.words import at_most
    from ..interventions.choosing import named

    rows = [
        [
            named(found.without(step.candidate.what)),
            f"{step.candidate.cost:.2f}",
            f"{step.found.drop:.2f}",
            at_most(step.found.upper),
            f"{step.found.p:.3g}",
            "safe" if step.found.safe else "not shown to be safe",
        ]
        for step in found.steps
    ]
    notes = [
        f"{found.scored} cuts were scored: {found.tried}.",
        f"{found.chosen_on}. {found.certified_on}.",
        *found.sentences,
    ]
    head = ["without", "cost (choosing)", "drop (certifying)", "at most", "p", f"margin {found.max_drop:g}"]
    screen.rows(head, rows, notes) if rows else screen.sentences(notes)
    if found.speed is not None:
        notes = [found.speed.doubt] if found.speed.doubt else []
        screen.rows(["", "before", "after", "ratio [range]"], found.speed.table(), notes)
