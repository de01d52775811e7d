"""How similar are the layers in these files? The verb `similarity`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .show import JsonOption, OutOption, QuietOption, Screen

if TYPE_CHECKING:
    from ..comparison.plan import Plan
    from ..comparison.request import Request

SeedOption = Annotated[int, typer.Option(min=0, help="For everything that is drawn.")]
ThreadsOption = Annotated[int | None, typer.Option(help="Threads of the processor.", show_default=False)]
DeviceOption = Annotated[str, typer.Option(help="cpu or cuda.")]


def similarity(
    context: typer.Context,
    a: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="A .npy or .safetensors file of layers, or a folder of them.",
            show_default=False,
        ),
    ],
    b: Annotated[
        str | None,
        typer.Argument(metavar="B", help="What to compare with; A itself when absent.", show_default=False),
    ] = None,
    measures: Annotated[
        str,
        typer.Option(
            "--measures",
            "-m",
            help="Names of `microtome ls measures`, commas between them; options as svcca:threshold=0.95.",
        ),
    ] = "debiased_cka",
    clusters: Annotated[
        Path | None,
        typer.Option(
            help="A .npy file with the cluster of each row, such as its sentence.", show_default=False
        ),
    ] = None,
    certainty: Annotated[bool, typer.Option("--certainty", metavar="", help="Give intervals.")] = False,
    level: Annotated[float, typer.Option(help="Promised coverage of the intervals.")] = 0.95,
    halves: Annotated[
        int, typer.Option(min=2, max=100_000, help="Half-samples for intervals that need them.")
    ] = 40,
    permutations: Annotated[
        int, typer.Option(min=0, max=10_000_000, help="Orders of the rows to try as a null.")
    ] = 0,
    rows: Annotated[
        int | None, typer.Option(help="Compare on so many rows, drawn with the seed.", show_default=False)
    ] = None,
    leave_out: Annotated[
        Path | None,
        typer.Option(help="A .npy file, true for each row to leave out.", show_default=False),
    ] = None,
    zscore: Annotated[
        bool, typer.Option("--zscore", metavar="", help="Standardize every neuron first.")
    ] = False,
    remove_top: Annotated[int, typer.Option(help="Leave out so many neurons of largest variance.")] = 0,
    precision: Annotated[str, typer.Option(help="fast or exact.")] = "fast",
    memory: Annotated[str, typer.Option(help="What may be held beside the input.")] = "2GB",
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    seed: SeedOption = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Say what it would cost, and stop.")
    ] = False,
    out: OutOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare every layer of A with every layer of B, or of A itself."""
    from ..comparison.request import prepare
    from ..comparison.similarity import similarity_matrix
    from ..findings.record import describe_file, with_source
    from ..runtime import using_threads
    from .surgery import check

    screen = Screen(json=json, quiet=quiet)
    check("similarity", device=device, level=level, threads=threads, stores=False, out=out)
    chosen = {
        "clusters": None if clusters is None else str(clusters),
        "precision": precision,
        "certainty": certainty,
        "memory": memory,
        "device": device,
        "seed": seed,
        "halves": halves,
        "permutations": permutations,
        "rows": rows,
        "leave_out": None if leave_out is None else _read_mask(leave_out),
    }
    with using_threads(threads):
        request, plan, _ = prepare(a, b, measures, **chosen)
    _check_controls(request, remove_top)
    if dry_run:
        screen.result(_plan_document(request, plan), _estimate(request, plan))
        return
    screen.note(_estimate(request, plan))
    read = [*_files(request), *(str(p) for p in (clusters, leave_out) if p is not None)]
    inputs = [describe_file(path) for path in read]
    with screen.working() as progress:
        maps = similarity_matrix(
            a,
            b,
            measures,
            **chosen,
            level=level,
            threads=threads,
            zscore=zscore,
            remove_top=remove_top,
            progress=progress,
        )
    screen.maps(with_source(maps, command=context.obj or "", inputs=inputs), out)


def _read_mask(path: Path) -> Any:
    import numpy as np

    from ..errors import InputError, check_plain

    check_plain(path)
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"--leave-out must be a readable .npy file, but got {path}: {error}.") from error


def _check_controls(request: Request, remove_top: int) -> None:
    """Refuse before the work, and in a dry run, what would be refused in the middle of it."""
    from ..errors import must

    narrow = min(*request.left.widths, *(request.right or request.left).widths)
    if not 0 <= remove_top < narrow:
        raise must(
            "--remove-top", f"at least 0 and below the narrowest layer's {narrow} features", remove_top
        )


def _estimate(request: Request, plan: Plan) -> str:
    other = request.right or request.left
    names = ", ".join(choice.label for choice in request.measures)
    return (
        f"{len(request.left)} x {len(other)} layers, {request.n:,} rows, {names}: {plan.sentence()}, "
        f"on {request.settings.device}"
    )


def _plan_document(request: Request, plan: Plan) -> dict[str, Any]:
    return {
        "format": "microtome/plan/1",
        "left": list(request.left.names),
        "right": list((request.right or request.left).names),
        "rows": request.n,
        "measures": [choice.label for choice in request.measures],
        "memory_bytes": plan.state_bytes,
        "readings": plan.passes,
        "operations": plan.operations,
        "seconds_on_one_thread": plan.seconds,
        "device": str(request.settings.device),
    }


def _files(request: Request) -> list[str]:
    """The files that the layers lie in, each once."""
    layers = [*request.left.layers, *(request.right.layers if request.right is not None else ())]
    return list(dict.fromkeys(str(layer.path) for layer in layers))
