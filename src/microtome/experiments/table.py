"""Which experiments are there? All of them, by name, with what they need and whose they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from .base import Experiment


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """
    One question that is put to an encoder.

    Parameters
    ----------
    name : str
        Of the function in Python.
    verb : str
        On the command line; empty where there is none.
    asks : str
        The question.
    takes : {"tuned", "encoder", "layers", "changed", "models", "checkpoints"}
        A fine-tuned model, an encoder that is then fine-tuned, one whose layers are read as they are, one
        before and after fine-tuning, several to be compared, or one along its training.
    trains : bool
        Whether whole models are trained.
    protocols : tuple of str
        Experiments of the papers that it covers, as their protocols are numbered.
    source : str
        Whose idea it is.
    path : str
        Of the class, below this package.
    """

    name: str
    verb: str
    asks: str
    takes: Literal["tuned", "encoder", "layers", "changed", "models", "checkpoints"]
    trains: bool
    protocols: tuple[str, ...]
    source: str
    path: str = ""

    def load(self) -> type[Experiment]:
        """Import the class."""
        module, _, name = self.path.rpartition(".")
        return getattr(import_module(f".{module}", __package__), name)


_ALL = (
    Entry(
        name="truncation",
        verb="truncate",
        path="surgery.truncation.Truncation",
        asks="How well does a head read each layer, as it is, tuned further, or on the model before tuning?",
        takes="tuned",
        trains=False,
        protocols=("P-E2",),
        source="Phang et al. 2021",
    ),
    Entry(
        name="skipping",
        verb="skip",
        path="surgery.skipping.Skipping",
        asks="What does leaving out each span of blocks cost?",
        takes="tuned",
        trains=False,
        protocols=("P-E3",),
        source="Phang et al. 2021",
    ),
    Entry(
        name="freezing",
        verb="freeze",
        path="surgery.freezing.Freezing",
        asks="Which blocks need to learn, and what does it save if they do not?",
        takes="encoder",
        trains=True,
        protocols=("W-E6", "M-E4"),
        source="Wu et al. 2020, Merchant et al. 2020",
    ),
    Entry(
        name="reinitialization",
        verb="reinit",
        path="surgery.reinitialization.Reinitialization",
        asks="Which blocks' pretrained weights matter, against depth alone?",
        takes="encoder",
        trains=True,
        protocols=("T-E1", "T-E2", "T-E3", "M-E5", "B-5"),
        source="Tamkin et al. 2020, Merchant et al. 2020",
    ),
    Entry(
        name="permutation",
        verb="permute",
        path="surgery.permutation.Permutation",
        asks="Does the order of the blocks matter, and alike in different tasks?",
        takes="encoder",
        trains=True,
        protocols=("T-E5",),
        source="Tamkin et al. 2020",
    ),
    Entry(
        name="dropping",
        verb="drop",
        path="surgery.dropping.Dropping",
        asks="Which blocks can be left out before fine-tuning?",
        takes="encoder",
        trains=True,
        protocols=("S-E1",),
        source="Sajjad et al. 2023",
    ),
    Entry(
        name="probing",
        verb="probe",
        path="probing.probing.Probing",
        asks="What does each layer encode of an annotation or a task?",
        takes="layers",
        trains=False,
        protocols=("M-E1", "M-E2", "T-E4"),
        source="Merchant et al. 2020, Hewitt and Manning 2019, Tenney et al. 2019, Tamkin et al. 2020",
    ),
    Entry(
        name="change",
        verb="change",
        path="change.change.Change",
        asks="What did fine-tuning change, and in which layers?",
        takes="changed",
        trains=False,
        protocols=("M-E3",),
        source="Merchant et al. 2020",
    ),
    Entry(
        name="domains",
        verb="domains",
        path="change.domains.Domains",
        asks="Did it change sentences of the task more than others?",
        takes="changed",
        trains=False,
        protocols=("M-E6",),
        source="Merchant et al. 2020",
    ),
    Entry(
        name="tuning_methods",
        verb="tuning-methods",
        path="change.tuning_methods.TuningMethods",
        asks="Where does the change sit when only adapters, biases or the head learn?",
        takes="encoder",
        trains=True,
        protocols=("B-8",),
        source="microtome, Hu et al. 2022, Ben Zaken et al. 2022",
    ),
    Entry(
        name="localization",
        verb="localize",
        path="change.localization.Localization",
        asks="In which layers do single neurons matter, beyond rotated layers?",
        takes="models",
        trains=False,
        protocols=("W-E3", "B-12"),
        source="microtome, Wu et al. 2020",
    ),
    Entry(
        name="trajectory",
        verb="trajectory",
        path="change.trajectory.Trajectory",
        asks="How do layers come to be what they are, along a training?",
        takes="checkpoints",
        trains=False,
        protocols=("B-7",),
        source="microtome",
    ),
)
EXPERIMENTS: Mapping[str, Entry] = MappingProxyType({one.name: one for one in _ALL})
