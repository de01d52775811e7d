"""How alike are the layers of these models? The verb `compare`."""

from __future__ import annotations

from typing import Annotated

import typer

from .models import (
    AutocastOption,
    DtypeOption,
    ExactOption,
    HalvesOption,
    LongestOption,
    ModelsArgument,
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
    TwinsOption,
)
from .show import JsonOption, OutOption, QuietOption, Screen
from .similarity import DeviceOption, SeedOption, ThreadsOption
from .surgery import check


def compare(
    context: typer.Context,
    models: ModelsArgument,
    on: OnOption,
    rows: RowsOption = "word",
    measures: Annotated[
        str,
        typer.Option(
            "--measures",
            "-m",
            help="Names of `microtome ls measures`, commas between them; attention measures too.",
        ),
    ] = "debiased_cka",
    twins: TwinsOption = 0,
    certainty: Annotated[
        bool,
        typer.Option("--certainty", metavar="", help="Give intervals, by document or else sentence."),
    ] = False,
    level: Annotated[float, typer.Option(help="Promised coverage of the intervals.")] = 0.95,
    halves: HalvesOption = 40,
    permutations: Annotated[
        int, typer.Option(min=0, max=10_000_000, help="Orders of the rows to try as a null.")
    ] = 0,
    subword: SubwordOption = "last",
    special: SpecialOption = "out",
    longest: LongestOption = None,
    sample: SampleOption = None,
    exact: ExactOption = None,
    causal: Annotated[
        bool, typer.Option("--causal", metavar="", help="Attention: compare lower triangles only.")
    ] = False,
    zscore: Annotated[
        bool, typer.Option("--zscore", metavar="", help="Standardize every neuron first.")
    ] = False,
    remove_top: Annotated[int, typer.Option(help="Leave out so many neurons of largest variance.")] = 0,
    keep: Annotated[
        bool, typer.Option(help="Record rows in the store, or let them go after one pass.")
    ] = True,
    read: ReadOption = [],  # noqa: B006 - typer reads the default and changes nothing
    revision: RevisionOption = None,
    tokenizer: TokenizerOption = None,
    precision: Annotated[str, typer.Option(help="fast or exact.")] = "fast",
    memory: Annotated[str, typer.Option(help="What may be held beside the rows.")] = "2GB",
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
    out: OutOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare all layers of all models with one another, on the same rows of a corpus."""
    from dataclasses import replace

    from ..comparison.compare import check_measures
    from ..comparison.compare import compare as run
    from ..comparison.inputs import check_remove_top
    from ..comparison.plan import read_bytes
    from ..comparison.request import check_precision
    from ..extraction.recording import check_recording
    from ..findings.record import with_source
    from ..rows.options import row_options
    from ..rows.planning import input_length, plan_rows
    from ..runtime import using_threads
    from .models import cost, load_models, read_texts

    screen = Screen(json=json, quiet=quiet)
    check("similarity", device=device, level=level, threads=threads, store=store, out=out)
    check_measures(measures, rows=rows, certainty=certainty, keep=keep)
    check_precision(precision)
    read_bytes(memory)
    check_recording(dtype, tokens)
    picked = {"subword": subword, "special": special, "longest": longest, "sample": sample, "exact": exact}
    options = row_options(rows, seed=seed, **picked)
    texts = read_texts(on, read)
    with screen.working() as progress, using_threads(threads):
        encoders = load_models(
            models,
            revision=revision,
            tokenizer=tokenizer,
            device=device,
            autocast=autocast,
            twins=range(seed, seed + twins),
        )
        check_remove_top(remove_top, [width for encoder in encoders for width in encoder.widths])
        options = replace(options, longest=input_length(encoders, longest))
        planned = plan_rows(texts.examples, encoders, options, progress=progress)
    said, document = cost(encoders, planned, dtype=dtype, kept=keep)
    if dry_run:
        screen.result({"format": "microtome/plan/1", **document}, said)
        return
    screen.note(said)
    with screen.working() as progress, using_threads(threads):
        maps = run(
            encoders,
            on=texts,
            rows=rows,
            measures=measures,
            certainty=certainty,
            causal=causal,
            keep=keep,
            seed=seed,
            device=device,
            dtype=dtype,
            tokens=tokens,
            store=store,
            command=context.obj or "",
            progress=progress,
            precision=precision,
            memory=memory,
            threads=threads,
            level=level,
            halves=halves,
            permutations=permutations,
            zscore=zscore,
            remove_top=remove_top,
            **picked,
        )
    screen.maps(with_source(maps, command=context.obj or "", inputs=[]), out, findings=maps.findings)
    if not json:
        screen.sentences(maps.findings)
