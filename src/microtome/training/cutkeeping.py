"""How are the answers of many cuts kept, and of which model are they? One table, one hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..tasks.items import Split
from .evaluating import tuples

if TYPE_CHECKING:
    from .taskmodel import TaskModel


def digest_model(model: TaskModel, tokenizer: Any) -> str:
    """
    Hash all that decides what a model answers: weights with the head, configuration, tokens, labels.

    Parameters
    ----------
    model : TaskModel
    tokenizer : Tokenizer

    Returns
    -------
    str
    """
    from ..encoders.encoder import digest_weights

    beside = ("_name_or_path", "transformers_version")
    told = {
        "weights": digest_weights(model),
        "tokenizer": tokenizer.digest,
        "config": {name: value for name, value in model.config.to_dict().items() if name not in beside},
        "head": str(model.head),
        "labels": list(model.labels),
        "order": model.order,
        "pad": model.pad,
        "mask": model.mask,
    }
    text = json.dumps(told, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def write_cuts(path: Path, split: Split, found: Sequence[Sequence[Any]]) -> None:
    """
    Write what each cut answered, as a table with JSON in its cells.

    Parameters
    ----------
    path : Path
        Of a .parquet file.
    split : Split
    found : sequence of sequence
        For each cut, one answer an example.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {str(number): [json.dumps(answer) for answer in each] for number, each in enumerate(found)}
    pq.write_table(pa.table({"id": [item.id for item in split], **columns}), path)


def read_cuts(path: Path, split: Split, count: int) -> list[list[Any]]:
    """Read back what so many cuts answered, about the same examples in the same order."""
    import pyarrow.parquet as pq

    table = pq.read_table(path).to_pydict()
    if table["id"] != [item.id for item in split] or len(table) != count + 1:
        raise InputError(f"{path} must hold an answer for each example and cut, but it has others.")
    return [[tuples(json.loads(answer)) for answer in table[str(number)]] for number in range(count)]
