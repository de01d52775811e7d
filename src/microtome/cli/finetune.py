"""How good is a model after fine-tuning, and how sure is that? The verbs `finetune` and `evaluate`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..rounding import at_least, at_most, between
from .models import RevisionOption, StoreOption, TokenizerOption
from .reading import open_noted, read_head, read_numbers, read_values, task_options
from .show import DeviceOption, JsonOption, OutOption, QuietOption, Screen, ThreadsOption
from .surgery import check

if TYPE_CHECKING:
    from ..inference.estimate import Estimate
    from ..training.evaluating import Evaluation

TaskOption = Annotated[
    str,
    typer.Option(
        help="A name of `microtome ls tasks`, a card (.toml), or a table of one's own.", show_default=False
    ),
]
DataOption = Annotated[
    str | None,
    typer.Option(help="The folder of the task's original files; else the hub.", show_default=False),
]
ColumnsOption = Annotated[
    list[str],
    typer.Option(
        "--column",
        help="Of a table of one's own, as text=NAME, label=NAME, pair=NAME (the second text), group=NAME; or "
        "kind=regression, kind=classification, labels=no,yes.",
        show_default=False,
    ),
]
PairsOption = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT,OTHER,SCORE",
        help="The columns of a table of pairs: both texts, and the class or score.",
        show_default=False,
    ),
]
HeldOutOption = Annotated[
    int | None,
    typer.Option(
        help="Cut so many examples off the validation split to be scored on, and train on the rest.",
        show_default=False,
    ),
]


def finetune(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Hub id or folder.", show_default=False)],
    task: TaskOption,
    data: DataOption = None,
    column: ColumnsOption = [],  # noqa: B006 - typer reads the default and changes nothing
    pairs: PairsOption = None,
    held_out: HeldOutOption = None,
    recipe: Annotated[str, typer.Option(help="A name of `microtome ls recipes`.")] = "devlin2019",
    change: Annotated[
        list[str],
        typer.Option("--set", help="Another value of the recipe, as rate=2e-5.", show_default=False),
    ] = [],  # noqa: B006
    seeds: Annotated[str, typer.Option(help="Seeds, as 1,2,3 or 1-3.")] = "0",
    train_size: Annotated[
        int | None, typer.Option(help="Train on so many examples.", show_default=False)
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(
            help="stock, jiant, own, or reads=cls,dense=1,pooler=none; the recipe's when absent.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[str, typer.Option(help="What learns: full, head, bitfit or lora.")] = "full",
    precision: Annotated[
        str, typer.Option(help="float32, tf32 (on a GPU), bfloat16 or float16.")
    ] = "float32",
    checkpoints: Annotated[
        str, typer.Option(help="Also keep the model after these updates, or: epochs.", show_default=False)
    ] = "",
    board: Annotated[
        str | None,
        typer.Option(help="A folder for TensorBoard, a part for each seed.", show_default=False),
    ] = None,
    at_once: Annotated[int, typer.Option(min=1, max=256, help="Seeds that train side by side.")] = 1,
    abreast: Annotated[
        bool,
        typer.Option("--abreast", metavar="", help="Train all seeds as one model: for small ones on a GPU."),
    ] = False,
    random_init: Annotated[
        bool, typer.Option("--random-init", metavar="", help="Start from the model's random twin.")
    ] = False,
    revision: RevisionOption = None,
    tokenizer: TokenizerOption = None,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    store: StoreOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Say what it would do, and stop.")
    ] = False,
    out: OutOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Fine-tune a model on a task, once for each seed, and score it."""
    from ..runtime import using_threads
    from ..training.checking import check_seeds
    from ..training.multi_seed import finetune_seeds, open_both, over_seeds
    from ..training.recipe import find_recipe
    from ..training.writing import check_runs, runs_document, write_runs

    screen = Screen(json=json, quiet=quiet)
    check(device=device, threads=threads, store=store, out=out)
    drawn = read_numbers("--seeds", seeds)
    if out is not None:
        check_runs(out, drawn)
    at = "epochs" if checkpoints == "epochs" else read_numbers("--checkpoints", checkpoints, empty=True)
    chosen = find_recipe(recipe, **read_values(change))
    given = (
        {
            "source": model,
            "revision": revision,
            "tokenizer": tokenizer,
            "random_init": random_init,
            "device": "cpu",
        },
        task_options(task, data, column, held_out, pairs),
    )
    options: dict[str, Any] = {
        "at_once": at_once,
        "abreast": abreast,
        "recipe": chosen,
        "train_size": train_size,
        "head": read_head(head),
        "method": method,
        "device": device,
        "precision": precision,
        "checkpoints": at,
        "board": board,
    }
    with screen.working(), using_threads(threads):
        opened = open_noted(given[1], screen)
        encoder, _ = open_both(given[0], opened)
        first = check_seeds(encoder, opened, drawn, **options)
    examples = len(first.data)
    updates = chosen.updates(examples)
    said = (
        f"{opened.title}: {examples:,} examples of {opened.source}, {updates:,} updates of {chosen.batch}, "
        f"{len(drawn)} seed{'' if len(drawn) == 1 else 's'}, scored on {opened.validation} "
        f"({len(opened.split(opened.validation)):,})"
    )
    if dry_run:
        document = {"format": "microtome/plan/1", "examples": examples, "updates": updates, "seeds": drawn}
        screen.result(document, said)
        return
    screen.note(said)
    started = time.monotonic()
    with screen.working() as progress, using_threads(threads):
        runs = finetune_seeds(
            # Processes of their own open model and task themselves.
            *(given if at_once > 1 else (encoder, opened)),
            drawn,
            threads=threads,
            progress=progress,
            store=store,
            command=context.obj or "",
            **options,
        )
    mean = over_seeds(runs)
    spent = time.monotonic() - started
    document = runs_document(runs, mean, command=context.obj or "", seconds=spent)
    if out is not None:
        write_runs(out, runs, document)
        screen.note(f"Written to {out}: result.json, table.parquet and a checkpoint for each seed.")
        note_head(screen, runs[0].folder)
    if json:
        screen.result(document, "")
        return
    names = list(runs[0].scores)
    screen.rows(
        ["seed", *names, "updates", "seconds", "what happened"],
        [
            [
                str(run.seeds.order),
                *(interval(run.scores[name]) for name in names),
                f"{run.course['updates']:,}",
                f"{run.course['seconds']:.0f}",
                run.failure or "",
            ]
            for run in runs
        ],
        [*_sentences(runs[0].evaluation), _over_seeds(mean), *(f"{r.folder}" for r in runs)],
    )


def evaluate(
    context: typer.Context,
    model: Annotated[
        str, typer.Argument(metavar="CKPT", help="The folder of a fine-tuned model.", show_default=False)
    ],
    task: TaskOption,
    data: DataOption = None,
    column: ColumnsOption = [],  # noqa: B006 - typer reads the default and changes nothing
    pairs: PairsOption = None,
    held_out: HeldOutOption = None,
    split: Annotated[str | None, typer.Option(help="Validation when absent.", show_default=False)] = None,
    against: Annotated[
        str | None,
        typer.Option(help="Another checkpoint, compared on the same examples.", show_default=False),
    ] = None,
    longest: Annotated[
        int | None, typer.Option(help="Tokens of an example at most.", show_default=False)
    ] = None,
    level: Annotated[float, typer.Option(help="Promised coverage of the intervals.")] = 0.95,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Say what it would do, and stop.")
    ] = False,
    out: OutOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Score a fine-tuned model on a task, with intervals over examples."""
    from ..runtime import using_threads
    from ..training.evaluating import evaluate as run
    from ..training.writing import evaluation_document, write_evaluation

    screen = Screen(json=json, quiet=quiet)
    check(
        "evaluate",
        ("result.json", "table.parquet"),
        device=device,
        level=level,
        threads=threads,
        stores=False,
        out=out,
    )
    opened = open_noted(task_options(task, data, column, held_out, pairs), screen)
    with screen.working(), using_threads(threads):
        document, said = _plan(
            [model, *([] if against is None else [against])], opened, split, longest, device
        )
    if dry_run:
        screen.result(document, said)
        return
    options: dict[str, Any] = {"split": split, "longest": longest, "level": level, "device": device}
    with screen.working() as progress, using_threads(threads):
        found = run(Path(model), opened, progress=progress, **options)
        other = None if against is None else run(Path(against), opened, progress=progress, **options)
    names = {"model": model, "against": against or "", "command": context.obj or ""}
    document = evaluation_document(found, other, level=level, **names)
    sentences = _sentences(found)
    if other is not None:
        sentences.append(_compared(found.against(other, level=level), against or ""))
    if out is not None:
        write_evaluation(out, found, document)
        screen.note(f"Written to {out}: result.json and table.parquet.")
    if json:
        screen.result(document, "")
        return
    screen.rows(
        ["score", "value", f"{level * 100:g} % interval over examples", "a guess"],
        [
            [
                name,
                f"{score.value:.4f}",
                ""
                if score.low is None or score.high is None
                else f"{at_least(score.low, 4)} to {at_most(score.high, 4)}",
                "" if name not in found.baseline else f"{found.baseline[name]:.4f}",
            ]
            for name, score in found.scores.items()
        ],
        sentences,
    )


def _plan(
    models: list[str], task: Any, split: str | None, longest: int | None, device: str
) -> tuple[dict[str, Any], str]:
    """Open the models with their heads, and say what they would be scored on."""
    from ..training.inputs import encode
    from ..training.saving import open_model

    chosen = task.split(split or task.validation, labeled=task.kind != "language_modeling")
    weights = []
    for model in models:
        net, encoder, length, stride = open_model(Path(model), task, longest=longest, device=device)
        encode(chosen.items[:1], task, encoder.tokenizer, longest=length, stride=stride)
        weights.append(sum(weight.numel() for weight in net.parameters()))
    document = {
        "format": "microtome/plan/1",
        "models": models,
        "parameters": weights,
        "split": chosen.name,
        "examples": len(chosen),
        "scores": list(task.scores),
    }
    sizes = ", ".join(f"{name} ({count:,} weights)" for name, count in zip(models, weights, strict=True))
    said = (
        f"{sizes}: {len(chosen):,} examples of {task.name}/{chosen.name}, scored by {', '.join(task.scores)}"
    )
    return document, said


def note_head(screen: Screen, folder: Path) -> None:
    """Say where the head of a written model lies, if stock classes would draw another one."""
    from ..training.saving import said_of_head

    said = said_of_head(folder)
    if said is not None:
        screen.note(said)


def interval(found: Estimate) -> str:
    """A score with its interval, short."""
    if found.low is None or found.high is None:
        return f"{found.value:.4f}"
    return f"{found.value:.4f} {between(found.low, found.high, 4)}"


def _sentences(found: Evaluation) -> list[str]:
    unit = None if found.score.interval is None else found.score.interval.unit
    told = [f"{len(found.ids):,} examples of {found.task}/{found.split}."]
    if unit is not None:
        told.append(f"Intervals are over examples (unit: {unit}), for this model; seeds are apart.")
    if found.baseline:
        guess = ", ".join(f"{name} {value:.4f}" for name, value in found.baseline.items())
        told.append(f"The most frequent answer of the training split gets: {guess}.")
    return [*told, *(f"{note}." if not note.endswith(".") else note for note in found.notes)]


def _over_seeds(mean: Estimate) -> str:
    warned = [f"{one[:1].upper()}{one[1:]}" for one in mean.warnings]
    if mean.reason is not None:
        return " ".join([f"There is no mean over seeds: {mean.reason}.", *warned])
    said = f"Mean of {mean.measure} over {mean.n} seed{'' if mean.n == 1 else 's'}: {mean.value:.4f}"
    if mean.low is not None and mean.high is not None:
        said += f" {between(mean.low, mean.high, 4)} (95 %, t over seeds)"
    return " ".join([f"{said}.", *warned])


def _compared(found: Any, other: str) -> str:
    said = f"{found.score}: {found.difference:+.4f} against {other}"
    if found.interval is not None:
        said += f" {between(found.interval.low, found.interval.high, 4, signed=True)}"
    return f"{said} on the same {found.n:,} examples (p = {found.p:.3g}, {found.test})."
