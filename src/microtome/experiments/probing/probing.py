"""Probing experiment: what each layer encodes of an annotation or a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ...context import Context
from ...errors import InputError, must
from ...findings.results import Result
from ...probes.table import PROBES
from ...probes.targets import Target
from ...tasks.task import Task
from ..base import Experiment, Pieces, Plan, as_function, default_of, option, options_of
from ..inputs import LoadingOptions, TaskOptions
from .inputs import LAYERS

# A target that begins with it is a task.
TASK = "task:"
SOLVERS = ("published", "converged")
# Options that only a task has, or only an annotation; and those that leave description length undefined.
_OF_TASKS = ("data", "column", "pairs", "held_out", "solvers", "epochs")
_OF_ANNOTATIONS = ("on", "probe", "layers", "control_task", "control_draws", "mdl", "steps", "size")
_NOT_MDL = ("probe", "layers", "steps", "size")


@dataclass(frozen=True, kw_only=True)
class Probing(TaskOptions, LoadingOptions, Experiment):
    """
    Probe every layer of encoders for an annotation of words, spans or trees, or for the labels of a task.

    All layers are probed at once, from one pass of each encoder over the same words, so that the layers of
    several encoders can be compared word by word. The result has a curve over layers for each encoder, for
    the random baseline and for the control task; differences from layer 0, of each further encoder from the
    first, and from the control task (selectivity); and baselines that read no layer as lines. With `mdl` the
    curves are bits per word of an online code (Voita and Titov 2020).

    A task is read from the vector of the whole input. "published" trains a linear layer on the frozen
    pretrained pooler by the recipe "tamkin2020", whose small rate ends far from convergence; "converged" is a
    logistic-regression head (ridge regression for numbers) on the vector itself. Curves are called "MODEL
    (published)" and "MODEL (converged)".

    References: Merchant et al. 2020; Hewitt and Liang 2019; Hewitt and Manning 2019; Tenney et al. 2019;
    Voita and Titov 2020; Tamkin et al. 2020.

    Examples
    --------
    >>> import microtome as mt
    >>> base = mt.apply(mt.load("zoo:masked"), mt.Truncate(keep=2))
    >>> task = mt.task("polarity", sizes={"train": 16, "validation": 20})
    >>> result = mt.probe(base, target=task)
    >>> result.curves[0].name, result.curves[0].x
    ('masked (published)', (1, 2))
    """

    name = "probing"

    models: Any = option(
        "Models: hub ids, folders or zoo:NAME; the others are compared with the first.",
        argument=True,
        repeated=True,
        panel="Input",
        metavar="MODEL...",
    )
    on: Any = option(
        "File with the annotation, or a folder of files that name their splits; none for a task.",
        None,
        positional=True,
        panel="Input",
        metavar="CORPUS",
    )
    target: Any = option(
        "What to probe for: a name of `microtome ls targets`, or a task as task:rte.", "upos", panel="Input"
    )
    mdl: bool = option("Compute the description length of labels of words, by an online code.", False)
    probe: str | None = option(
        "Probe; the default one of the target when absent.", None, choices=tuple(PROBES)
    )
    layers: Sequence[str] = option(
        "What an edge probe reads: every single layer, a learned mix of layers 0 to l, or a mix of all.",
        ("single",),
        choices=tuple(LAYERS),
        panel="Rows",
    )
    control_task: bool = option(
        "Probe for a control task too: a random label for each word or span type, which a probe can only "
        "memorize.",
        False,
        panel="Statistics",
    )
    control_draws: int | None = option(
        "Number of control tasks, for intervals that cover other draws; 1 when absent.",
        None,
        least=1,
        panel="Statistics",
        metavar="N",
    )
    random_baselines: int = option(
        "Number of randomly initialized copies of the first model that are probed too: 0 or 1.",
        1,
        least=0,
        most=1,
        panel="Statistics",
    )
    train_size: int | None = option(
        "Train on at most N sentences, or on N examples of a task.", None, least=1, metavar="N"
    )
    seeds: Sequence[int] | None = option(
        "Seeds of probes with a random initialization, as 0,1 or 0-4; 0, or 0-2 for a task, when absent.",
        None,
    )
    steps: int | None = option(
        "Maximum number of updates of an edge probe; as published when absent.", None, least=1, metavar="N"
    )
    size: int | None = option(
        "Number of principal components of a layer that a linear probe reads; the full layer when absent.",
        None,
        least=1,
        metavar="K",
    )
    solvers: Sequence[str] = option(
        "Heads of a task: as published, or logistic regression to convergence.", SOLVERS, choices=SOLVERS
    )
    epochs: float | None = option("Epochs of published heads of a task; 10 when absent.", None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.target, str | Target | Task):
            raise must("target", "a name of an annotation or task:NAME", self.target)
        for name in ("layers", "solvers"):
            values = getattr(self, name)
            if len(set(values)) != (len(values) or -1):
                raise must(name, "one or more, each once", list(values))
        self._check_together()

    @property
    def of_task(self) -> bool:
        """Whether the target is a task."""
        return isinstance(self.target, Task) or str(self.target).startswith(TASK)

    @property
    def probe_seeds(self) -> tuple[int, ...]:
        """Seeds of the probes, or their default."""
        return tuple(self.seeds or ((0, 1, 2) if self.of_task else (0,)))

    @property
    def draws(self) -> int:
        """Number of draws of the control task."""
        return (self.control_draws or 1) if self.control_task else 0

    def _check_together(self) -> None:
        """Refuse options that do not go together."""
        title = getattr(self.target, "name", self.target)
        for name in self._changed(_OF_ANNOTATIONS if self.of_task else _OF_TASKS):
            ours, theirs = (
                ("a task", "annotated text (as upos)")
                if self.of_task
                else ("annotated text", "a task (as task:rte)")
            )
            raise InputError(
                f"{name} must be left out for {ours}, but the target is {title}; it is for {theirs}."
            )
        if self.on is None and not self.of_task:
            raise InputError(f"on must name a file with the annotation {title}, but it is absent.")
        if self.control_draws is not None and (self.mdl or not self.control_task):
            raise InputError("control_draws must be given with control_task, and not with mdl.")
        conflicts = [f"{name} {getattr(self, name)}" for name in self._changed(_NOT_MDL)]
        if len(self.probe_seeds) > 1:
            conflicts.append(f"seeds {', '.join(map(str, self.probe_seeds))}")
        if self.mdl and conflicts:
            raise must("mdl", f"given one seed, and none of {', '.join(_NOT_MDL)}", ", ".join(conflicts))

    def _changed(self, names: Sequence[str]) -> list[str]:
        """Names of those options that have another value than their default."""
        defaults = {f.name: default_of(f) for f, _ in options_of(type(self)) if f.name in names}
        values = {name: getattr(self, name) for name in names}
        # A corpus or a table may compare in its own way, so that None is compared by identity.
        return [
            name
            for name, value in values.items()
            if (value is not None if defaults[name] is None else value != defaults[name])
        ]

    def plan(self, context: Context) -> Plan:
        """Open models and annotation or task, and count what there is to do."""
        return self._strategy().plan(self, context)

    def pieces(self, plan: Plan, context: Context) -> Pieces:
        """The probes of each model and task; what they read of a model is recorded by the first of them."""
        return self._strategy().pieces(self, plan, context)

    def run(self, plan: Plan, context: Context) -> Result:
        """Train the probes that the store does not have yet, and summarize."""
        return self._strategy().run(self, plan, context)

    def _strategy(self) -> ModuleType:
        from . import annotations, mdl, task_probing

        return task_probing if self.of_task else mdl if self.mdl else annotations


probe = as_function(Probing, "probe")
