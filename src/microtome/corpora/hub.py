"""Reader of Hugging Face hub datasets, prepared by `datasets` and read from Arrow files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError, MissingExtraError, WorkError, listed, must, unknown, unreachable
from ..store.address import address, digest_file
from .examples import Example, Reader, ReaderOption
from .files import File, file_at
from .records import COLUMNS, to_examples

SCHEME = "hub:"
# The file formats that hold text and execute no code when they are read.
FORMS = ("parquet", "json", "csv", "text", "arrow")

_ROWS = 1000  # converted to Python objects at a time


def prepare(source: str, options: Mapping[str, Any]) -> tuple[File, ...]:
    """
    Prepare a split as Arrow files in the cache of `datasets`, downloading it if necessary.

    Parameters
    ----------
    source : str
        "hub:owner/name", or a folder in the same form.
    options : mapping
        config, split and revision.

    Returns
    -------
    tuple of File
    """
    try:
        from datasets import config as settings
        from datasets.exceptions import DatasetNotFoundError, DatasetsError
        from huggingface_hub import logging
    except ImportError as problem:
        raise MissingExtraError(
            "the reader hub must have the package datasets, but it is not installed: pip install datasets."
        ) from problem
    name = source.removeprefix(SCHEME)
    local = Path(name).is_dir()
    config, split, revision = options["config"], options["split"], options["revision"]
    if not name or (Path(name).is_absolute() and not local):
        raise must("a dataset", "an id such as hub:owner/name, or a folder that exists", source)
    if local and revision is not None:
        raise must("option revision", "left out for a folder", revision)
    location = {"path": str(Path(name).absolute()) if local else name, "revision": revision}
    # The library retries for a while, and logs each attempt.
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        builder = _builder(location, config)
        splits = [str(key) for key in builder.config.data_files]
        if split not in splits:
            raise unknown("option split", split, splits)
        if local:
            # The cache does not always detect changed files of a folder; a hash of their content does.
            data = _inside(name, builder.config.data_files)
            cache_key = address({"files": data}, [digest_file(file) for file in data])
            builder = _builder(
                location, config, cache_dir=str(Path(settings.HF_DATASETS_CACHE, "microtome", cache_key))
            )
        builder.download_and_prepare()
        prepared = builder.as_dataset(split=split).cache_files
    except DatasetNotFoundError as problem:
        raise must("a dataset", "one that the hub has and shows you", source) from problem
    except (OSError, RuntimeError, ValueError, DatasetsError) as problem:
        if isinstance(problem, (InputError, WorkError)):
            raise
        if isinstance(problem, ConnectionError) and not local:
            raise unreachable("a dataset", name) from problem
        reason = " ".join(str(problem.__cause__ or problem).split()).rstrip(".")
        raise WorkError(f"{source} must be a dataset that can be loaded, but got: {reason}.") from problem
    finally:
        logging.set_verbosity(verbosity)
    return tuple(file_at(Path(file["filename"])) for file in prepared)


def _builder(location: Mapping[str, Any], config: str | None, **options: Any) -> Any:
    from datasets import get_dataset_config_names, load_dataset_builder

    configs = get_dataset_config_names(**location)
    if config is None and len(configs) > 1 and "default" not in configs:
        raise must("option config", f"one of {', '.join(configs)}", config)
    if config is not None and config not in configs:
        raise unknown("option config", config, configs)
    builder = load_dataset_builder(**location, name=config, **options)
    form = type(builder).__module__.rpartition(".")[2]
    if form not in FORMS:
        raise must("a dataset", f"made of {listed(FORMS)} files", form)
    return builder


def _inside(folder: str, splits: Mapping[Any, Sequence[str]]) -> list[str]:
    """List the data files of a folder, all of which must be in it."""
    data = sorted({str(file) for files in splits.values() for file in files})
    roots = (Path(folder).absolute(), Path(folder).resolve())
    for file in data:
        if not any(Path(os.path.normpath(file)).is_relative_to(root) for root in roots):
            raise InputError(f"the data files of {folder} must be inside of it, but got {file!r}.")
    return data


def _check_name(name: Any) -> str | None:
    if name is not None and not isinstance(name, str):
        raise must("options config, split and revision", "names", name)
    return name


def read_hub(files: Sequence[File], options: Mapping[str, Any]) -> Iterator[Example]:
    """Read the rows of all files of a split, numbered consecutively."""
    rows = HubRows(files)
    return to_examples(iter(rows), options["columns"], rows.refuse)


class HubRows:
    """The rows of memory-mapped Arrow files, converted to records in small batches."""

    def __init__(self, files: Sequence[File]) -> None:
        self._files = files
        self._number = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        import pyarrow as pa
        from datasets import Features

        for file in self._files:
            with pa.memory_map(str(file.path)) as source, pa.ipc.open_stream(source) as stream:
                names = {
                    name: _class_names(feature)
                    for name, feature in Features.from_arrow_schema(stream.schema).items()
                }
                for batch in stream:
                    for start in range(0, batch.num_rows, _ROWS):
                        for row in batch.slice(start, _ROWS).to_pylist():
                            self._number += 1
                            yield {column: _named(v, names[column]) for column, v in row.items()}

    def refuse(self, must: str, but: str) -> InputError:
        """Return the error about the current row."""
        return InputError(f"row {self._number} of the dataset must {must}, but {but}.")


def _class_names(feature: Any) -> list[str] | None:
    """Return the class names of a column or of the items of its lists, if any."""
    return getattr(getattr(feature, "feature", feature), "names", None)


def _named(value: Any, names: list[str] | None) -> Any:
    if names is None or value is None:
        return value
    if isinstance(value, list):
        return [_named(label, names) for label in value]
    return names[value] if value >= 0 else None  # -1 stands for a withheld label


HUB = Reader(
    name="hub",
    suffixes=(),
    summary="A dataset of the Hugging Face hub (hub:owner/name) or a folder in the same form (hub:FOLDER), "
    "one example per row; the id is the row's number unless a column gives it, classes go by their names.",
    read=read_hub,
    options={
        "config": ReaderOption(
            default=None, check=_check_name, meaning="the configuration, where the dataset has several"
        ),
        "split": ReaderOption(default="train", check=_check_name, meaning="the split"),
        "revision": ReaderOption(
            default=None, check=_check_name, meaning="branch, tag or commit; pin it for results that last"
        ),
        "columns": COLUMNS,
    },
    locate=prepare,
)
