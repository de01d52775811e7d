"""What do the layers of a model say about each word? The verb `extract`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from .models import (
    AutocastOption,
    DtypeOption,
    ExactOption,
    LongestOption,
    OnOption,
    ReadOption,
    RevisionOption,
    RowsOption,
    SampleOption,
    SpecialOption,
    StoreOption,
    SubwordOption,
    TokenizerOption,
    TokensOption,
)
from .show import JsonOption, QuietOption, Screen
from .similarity import DeviceOption, SeedOption, ThreadsOption
from .surgery import check

# What is put into the folder of --out.
RECORDED = ("entry.json", "journal.jsonl", "manifest.json", "rows.parquet", "shard-*.safetensors")


def extract(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Hub id or folder.", show_default=False)],
    on: OnOption,
    rows: RowsOption = "word",
    subword: SubwordOption = "last",
    special: SpecialOption = "out",
    longest: LongestOption = None,
    sample: SampleOption = None,
    exact: ExactOption = None,
    read: ReadOption = [],  # noqa: B006 - typer reads the default and changes nothing
    revision: RevisionOption = None,
    tokenizer: TokenizerOption = None,
    dtype: DtypeOption = "float32",
    autocast: AutocastOption = None,
    tokens: TokensOption = None,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    seed: SeedOption = 0,
    store: StoreOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Say what it would cost, and stop.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Also put the layers into this folder, as `similarity` reads them."),
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run a model over a corpus and record every layer in the store."""
    from dataclasses import replace

    import torch

    from ..encoders.versions import provenance
    from ..extraction.recording import check_recording, record
    from ..rows.options import row_options
    from ..rows.planning import input_length, plan_rows
    from ..runtime import using_threads
    from ..store.outfolder import check_foreign, deliver
    from ..store.shelf import Shelf
    from .models import cost, load_models, read_texts

    started = time.monotonic()
    screen = Screen(json=json, quiet=quiet)
    check(device=device, threads=threads, store=store, out=out)
    check_recording(dtype, tokens)
    options = row_options(
        rows, subword=subword, special=special, longest=longest, sample=sample, seed=seed, exact=exact
    )
    texts = read_texts(on, read)
    if out is not None:
        check_foreign(out, RECORDED)
    with screen.working() as progress, using_threads(threads):
        (encoder,) = load_models(
            [model], revision=revision, tokenizer=tokenizer, device=device, autocast=autocast
        )
        options = replace(options, longest=input_length([encoder], longest))
        planned = plan_rows(texts.examples, [encoder], options, progress=progress)
    said, plan = cost([encoder], planned, dtype=dtype)
    if dry_run:
        screen.result({"format": "microtome/plan/1", **plan}, said)
        return
    screen.note(said)
    with screen.working() as progress, using_threads(threads):
        used = torch.get_num_threads()
        found = record(
            encoder,
            texts,
            planned,
            shelf=Shelf(store),
            dtype=dtype,
            tokens=tokens,
            command=context.obj or "",
            progress=progress,
        )
    place = found.folder
    if out is not None:
        place = deliver(found.folder, out)
    document: dict[str, Any] = {
        "format": "microtome/extract/1",
        "model": found.model,
        "layers": list(found.names),
        "widths": [layer.shape[1] for layer in found.layers.stored],
        "rows": len(planned),
        "digest": planned.digest,
        "address": found.address,
        "folder": str(place),
        "facts": dict(found.facts),
        "provenance": provenance(
            {
                "models": [found.facts["model"]],
                "texts": found.facts["texts"],
                "rows": {"digest": planned.digest, "count": len(planned), "what": planned.options.sentence()},
                "activations": [found.address],
                "seed": seed,
                "device": str(encoder.device),
                "threads": used,
                "seconds": round(time.monotonic() - started, 3),
                "command": context.obj or "",
            }
        ),
    }
    screen.result(document, f"{len(found.layers)} layers of {len(planned):,} rows in {place}")
