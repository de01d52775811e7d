"""How is a small encoder of our own made? The verb `pretrain`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .reading import read_numbers, read_values
from .show import DeviceOption, JsonOption, QuietOption, Screen, ThreadsOption
from .surgery import check


def pretrain(
    context: typer.Context,
    design: Annotated[
        str,
        typer.Argument(
            metavar="DESIGN", help="masked, shared, every, replaced or causal.", show_default=False
        ),
    ],
    corpus: Annotated[
        Path, typer.Option(help="A text, one paragraph a line, plain or packed.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="The folder of the encoder.", show_default=False)],
    tokenizer: Annotated[
        str,
        typer.Option(help="zoo: that of the package; new: one is trained; or a tokenizer.json."),
    ] = "zoo",
    tokens: Annotated[
        Path | None,
        typer.Option(help="A folder where the cut text is kept for other designs.", show_default=False),
    ] = None,
    change: Annotated[
        list[str],
        typer.Option("--set", help="Another value of the design, as steps=1000.", show_default=False),
    ] = [],  # noqa: B006 - typer reads the default and changes nothing
    seed: Annotated[int, typer.Option(min=0, help="Of weights, order and what is hidden.")] = 0,
    checkpoints: Annotated[
        str, typer.Option(help="Also keep the encoder after these updates.", show_default=False)
    ] = "",
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Say what it would do, and stop.")
    ] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Pretrain a small encoder; the same command goes on where it was stopped."""
    from ..errors import InputError
    from ..runtime import using_threads
    from ..zoo.designs import find_design
    from ..zoo.pretraining import check_checkpoints, check_out
    from ..zoo.pretraining import pretrain as run
    from ..zoo.text import check_text, own_tokenizer, read_text

    screen = Screen(json=json, quiet=quiet)
    check(device=device, threads=threads, stores=False, out=out)
    chosen = find_design(design, **read_values(change, such="steps=1000"))
    kept = read_numbers("--checkpoints", checkpoints, empty=True)
    check_out(out)
    read = chosen.steps * chosen.batch * (chosen.length - 2)
    said = (
        f"{chosen.title}: {chosen.layers} layers of width {chosen.width}, {chosen.steps:,} updates of "
        f"{chosen.batch} sequences of {chosen.length}, {_million(read)} tokens in all"
    )
    try:
        given = {"zoo": own_tokenizer, "new": lambda: None}.get(
            tokenizer, lambda: Path(tokenizer).read_text(encoding="utf-8")
        )()
    except (OSError, ValueError) as error:
        raise InputError(
            f"--tokenizer must be zoo, new or a readable tokenizer.json, but got: {error}."
        ) from error
    check_text(corpus, tokens)
    check_checkpoints(chosen, kept)
    if dry_run:
        document = {"format": "microtome/plan/1", "design": chosen.specification(), "tokens": read}
        screen.result(document, said)
        return
    screen.note(said)
    with screen.working() as progress, using_threads(threads):
        text = read_text(
            corpus, vocabulary=chosen.vocabulary, tokenizer=given, folder=tokens, progress=progress
        )
        found = run(
            chosen,
            text,
            out,
            seed=seed,
            device=device,
            checkpoints=kept,
            progress=progress,
            command=context.obj or "",
        )
    document: dict[str, Any] = {
        "format": "microtome/pretrain/1",
        "folder": str(found.folder),
        "design": chosen.specification(),
        "seed": seed,
        "text": text.digest,
        "losses": [list(one) for one in found.losses],
        "tokens": found.tokens,
        "seconds": found.seconds,
        "failure": found.failure,
        "checkpoints": [str(one) for one in found.checkpoints],
    }
    last = f"loss {found.losses[-1][1]:.3f}" if found.losses else "no loss"
    sentence = f"{found.folder}: {last} after {_million(found.tokens, 1)} tokens, {found.seconds:.0f} s."
    if found.failure is not None:
        sentence += f" It failed: {found.failure}."
    screen.result(document, sentence)
    if found.failure is not None:
        raise typer.Exit(1)


def _million(tokens: int, digits: int = 0) -> str:
    """Write a number of tokens, in millions where there are some."""
    return f"{tokens / 1e6:,.{digits}f} million" if tokens >= 1e6 else f"{tokens:,}"
