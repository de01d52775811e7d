"""What a study consists of: models, tasks, fine-tunings and experiments, as plain values."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..arguments import checked
from ..checks import whole_number
from ..context import Context
from ..encoders.locations import find_folder
from ..executors.base import Resources
from ..store.files import read_record
from ..store.shelf import Shelf

if TYPE_CHECKING:
    from .results import StudyResults
    from .running import StudyOutcome
    from .status import StudyStatus

# Blocks and width of models of base size.
BASE = (12, 768)
# Mean tokens of an example of a task that names none.
TOKENS = 64
NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyModel:
    """
    A model of a study.

    Parameters
    ----------
    name : str
        In the study.
    source : str
        Hub id, folder or zoo:NAME.
    revision, tokenizer : str, optional
        As `microtome.load` takes them.
    blocks, width : int, optional
        For estimates; those of the configuration where it is at hand, else of a base-size model.
    """

    name: str
    source: str
    revision: str | None = None
    tokenizer: str | None = None
    blocks: int | None = None
    width: int | None = None

    def __post_init__(self) -> None:
        for name in ("blocks", "width"):
            if getattr(self, name) is not None:
                whole_number(f"{name} of {self.name}", getattr(self, name), 1)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of blocks, and width."""
        folder = find_folder(self.source) or Path(self.source)
        sizes = read_record(folder / "config.json") if (folder / "config.json").is_file() else {}
        blocks = self.blocks or sizes.get("num_hidden_layers")
        width = self.width or sizes.get("hidden_size")
        return blocks or BASE[0], width or BASE[1]

    @property
    def reference(self) -> Any:
        """As the options of experiments take it."""
        more = {name: getattr(self, name) for name in ("revision", "tokenizer") if getattr(self, name)}
        return {"source": self.source, **more} if more else self.source


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyTask:
    """
    A task of a study.

    Parameters
    ----------
    name : str
        In the study.
    task : str
        A name of `microtome ls tasks`, a card or a table.
    data : str, optional
        Folder of its original files.
    column : mapping of str to str
        Roles of the columns of a table.
    pairs : str, optional
    held_out : int, optional
    train_size : int, optional
        Number of training examples.
    text : str
        The split that stands for `{text}`.
    examples : int, optional
        Number of training examples of a table, for estimates.
    tokens : int
        Mean number of tokens per example, for estimates.
    """

    name: str
    task: str
    data: str | None = None
    column: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    pairs: str | None = None
    held_out: int | None = None
    train_size: int | None = None
    text: str = "validation"
    examples: int | None = None
    tokens: int = TOKENS

    def __post_init__(self) -> None:
        for name in ("held_out", "train_size", "examples", "tokens"):
            if getattr(self, name) is not None:
                whole_number(f"{name} of {self.name}", getattr(self, name), 1)

    @property
    def options(self) -> dict[str, Any]:
        """Options of an experiment that name the task."""
        options = {"data": self.data, "column": dict(self.column), "pairs": self.pairs}
        return {name: value for name, value in {**options, "held_out": self.held_out}.items() if value}

    @property
    def reading(self) -> dict[str, Any]:
        """Options of the corpus that a split of the task is."""
        return {**({"data": self.data} if self.data else {}), **self.column}


@dataclass(frozen=True, slots=True, kw_only=True)
class FineTunings:
    """
    Fine-tuning of models on tasks, once per seed.

    Parameters
    ----------
    seeds : tuple of int
    options : mapping
        Of `finetune`.
    models_only, tasks_only : tuple of str
        The models and tasks that take part.
    """

    seeds: tuple[int, ...]
    options: Mapping[str, Any]
    models_only: tuple[str, ...]
    tasks_only: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentTable:
    """
    An experiment of a study, which stands for one result per model, task or seed that its options name.

    Parameters
    ----------
    name, verb : str
    options : mapping
        Of the experiment. Texts such as "{model}", "{task}", "{tuned}" and "{text}" are filled in.
    models_only, tasks_only : tuple of str
        The models and tasks that take part.
    tuned_seeds : tuple of int
        Seeds of the fine-tuned models that take part; all when empty.
    """

    name: str
    verb: str
    options: Mapping[str, Any]
    models_only: tuple[str, ...]
    tasks_only: tuple[str, ...]
    tuned_seeds: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Study:
    """
    A paper's worth of experiments as data: models, tasks, fine-tunings, experiments and claims.

    Parameters
    ----------
    name, title : str
    paper : str
        Key of a citation; empty for a study of one's own.
    claims : str or sequence of mapping
        Name or file of the claims that its results are held against, or the claims themselves.
    models : mapping of str to StudyModel
    tasks : mapping of str to StudyTask
    finetune : FineTunings, optional
    experiments : mapping of str to ExperimentTable
    resources : mapping of str to Resources
        By experiment or verb; under "" for all others.
    level : float
        Coverage of intervals and bands.
    device : {"auto", "cpu", "cuda"}
    threads : int
        CPU threads of each call.
    folder : Path
        Where relative paths of the file start.

    Examples
    --------
    >>> import microtome as mt
    >>> study = mt.study("phang2021", size="small")
    >>> sorted(study.models)
    ['masked', 'replaced']
    """

    name: str
    title: str
    paper: str = ""
    claims: str | Sequence[Mapping[str, Any]] = ()
    models: Mapping[str, StudyModel]
    tasks: Mapping[str, StudyTask]
    finetune: FineTunings | None
    experiments: Mapping[str, ExperimentTable]
    resources: Mapping[str, Resources]
    level: float = 0.95
    device: str = "auto"
    threads: int = 1
    folder: Path

    @checked
    def run(
        self,
        store: str | os.PathLike[str] | None = None,
        on: str = "inline",
        *,
        context: Context | None = None,
        **settings: Any,
    ) -> StudyOutcome:
        """
        Run what the store does not have yet.

        Parameters
        ----------
        store : path, optional
        on : {"inline", "processes", "slurm", "ray"}
        context : Context, optional
            Its progress is told of results.
        **settings
            Of `ExecutorSettings`, such as workers=4; and note, which is called with what cannot be fetched.

        Returns
        -------
        StudyOutcome
        """
        from .running import run_study

        return run_study(self, on, replace(context or Context(), store=store), **settings)

    @checked
    def status(self, store: str | os.PathLike[str] | None = None) -> StudyStatus:
        """Ask the store what is done, running, failed and waiting, and what the rest will take."""
        from .status import read_status

        return read_status(self, Shelf(store))

    plan = status

    @checked
    def results(self, store: str | os.PathLike[str] | None = None) -> StudyResults:
        """The results that the store has."""
        from .results import read_results

        return read_results(self, Shelf(store))

    @checked
    def report(self, out: str | os.PathLike[str], store: str | os.PathLike[str] | None = None) -> Path:
        """Write the results that the store has, the scoreboard and the report into a folder; its page."""
        from .reporting import write_report

        return write_report(self, out, Shelf(store))[0]
