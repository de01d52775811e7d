"""Which models, on which texts, and which rows? What the verbs that run models share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..encoders.encoder import Encoder
    from ..extraction.texts import Texts
    from ..rows.planning import Rows

ModelsArgument = Annotated[
    list[str],
    typer.Argument(metavar="MODEL...", help="Hub ids or folders of models.", show_default=False),
]
OnOption = Annotated[
    str,
    typer.Option("--on", help="The corpus: a file, a folder, hub:ID or task:NAME/SPLIT.", show_default=False),
]
ReadOption = Annotated[
    list[str],
    typer.Option("--read", help="An option of the corpus's reader, as name=value.", show_default=False),
]
RowsOption = Annotated[str, typer.Option(help="What one row is: cls, mean, token or word.")]
SubwordOption = Annotated[str, typer.Option(help="Which sub-words stand for a word: last, first or mean.")]
SpecialOption = Annotated[str, typer.Option(help="Tokens that a model adds, in a mean: out or in.")]
LongestOption = Annotated[int | None, typer.Option(help="Tokens of an example at most.", show_default=False)]
SampleOption = Annotated[
    int | None, typer.Option(help="So many rows, drawn with the seed.", show_default=False)
]
HalvesOption = Annotated[
    int, typer.Option(min=2, max=100_000, help="Half-samples for intervals that need them.")
]
ExactOption = Annotated[str | None, typer.Option(help="Rows as a paper took them: wu.", show_default=False)]
DtypeOption = Annotated[str, typer.Option(help="How rows are stored: float32, float16 or bfloat16.")]
TokensOption = Annotated[
    int | None, typer.Option(help="Tokens that run together; found by itself.", show_default=False)
]
StoreOption = Annotated[
    str | None, typer.Option("--store", help="The folder of the store.", show_default=False)
]
RevisionOption = Annotated[
    str | None, typer.Option(help="Branch, tag or commit of models on the hub.", show_default=False)
]
AutocastOption = Annotated[
    str | None,
    typer.Option(
        help="Mixed precision on a GPU: matrix products in float16 or bfloat16.", show_default=False
    ),
]
TokenizerOption = Annotated[
    str | None,
    typer.Option(help="A folder, hub id or vocab.txt of another tokenizer.", show_default=False),
]

TwinsOption = Annotated[
    int,
    typer.Option(
        min=0,
        max=1_000,
        help="Random twins of the first model, as a floor: so many, drawn with the seed and the next ones.",
    ),
]

# `--read column.text=sentence` says which column is the text.
COLUMN = "column."


def load_models(
    names: Sequence[str],
    *,
    revision: str | None = None,
    tokenizer: str | None = None,
    device: str = "cpu",
    autocast: str | None = None,
    twins: Sequence[int] = (),
) -> list[Encoder]:
    """Load models, and random twins of the first one; models of one name are told apart by their folders."""
    from ..encoders.loading import load
    from ..encoders.names import distinct_names

    labels = distinct_names(names)
    shared = {"revision": revision, "tokenizer": tokenizer, "device": device, "autocast": autocast}
    found = [load(given, name=label, **shared) for given, label in zip(names, labels, strict=True)]
    return found + [
        load(names[0], name=f"{labels[0]}-random{seed}", random_init=True, seed=seed, **shared)
        for seed in twins
    ]


def read_texts(given: str, options: Sequence[str], option_name: str = "--read") -> Texts:
    """Open a corpus with the options that a user typed."""
    from ..extraction.texts import make_texts
    from .reading import read_pairs

    said: dict[str, Any] = dict(read_pairs(option_name, options))
    columns = {name.removeprefix(COLUMN): said.pop(name) for name in list(said) if name.startswith(COLUMN)}
    if columns:
        said["columns"] = columns
    return make_texts(given, **said)


def cost(encoders: Sequence[Encoder], rows: Rows, *, dtype: str = "float32", kept: bool = True) -> Any:
    """What a run would take, before it starts."""
    from ..rows.cost import row_cost

    return row_cost(encoders, rows, storage=dtype, kept=kept)
