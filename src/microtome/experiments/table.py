"""The table of experiments: the command of each, its class, what it needs, and whose it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from .base import Experiment

COMPARE, TUNE = "Compare layers", "Fine-tune and evaluate"
SURGERY, PROBE, CHANGE = "Remove and change blocks", "Probe layers", "What training changes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """
    One experiment.

    Parameters
    ----------
    verb : str
        On the command line; the function in Python has the same name, with underscores.
    path : str
        Of the class, below this package.
    group : str
        Where `microtome --help` lists it.
    summary : str
        One sentence.
    takes : {"files", "tuned", "encoder", "layers", "changed", "models", "checkpoints", "text"}
        Files of layers, a fine-tuned model, an encoder that is then fine-tuned, one whose layers are read as
        they are, one before and after fine-tuning, several to be compared, one along its training, or a text.
    trains : bool
        Whether whole models are trained.
    protocols : tuple of str
        Experiments of the papers that it covers, as their protocols are numbered.
    source : str
        Whose idea it is.
    """

    verb: str
    path: str
    group: str
    summary: str
    takes: Literal["files", "tuned", "encoder", "layers", "changed", "models", "checkpoints", "text"]
    trains: bool = False
    protocols: tuple[str, ...] = ()
    source: str = "microtome"

    def load(self) -> type[Experiment]:
        """Import the class."""
        module, _, name = self.path.rpartition(".")
        return getattr(import_module(f".{module}", __package__), name)


_ALL = (
    Entry(
        verb="similarity",
        path="similarity.matrix.SimilarityMatrix",
        group=COMPARE,
        summary="Compare all layers of two files or folders of layers, or of one with itself.",
        takes="files",
    ),
    Entry(
        verb="extract",
        path="similarity.extraction.Extraction",
        group=COMPARE,
        summary="Run a model over a corpus and record every layer.",
        takes="models",
    ),
    Entry(
        verb="compare",
        path="similarity.comparison.ModelComparison",
        group=COMPARE,
        summary="Compare all layers of all models on the same rows of a corpus.",
        takes="models",
        protocols=("W-E1", "W-E2", "P-E1"),
        source="Wu et al. 2020, Phang et al. 2021",
    ),
    Entry(
        verb="finetune",
        path="tuning.finetuning.FineTuning",
        group=TUNE,
        summary="Fine-tune a model on a task, once per seed, and score it.",
        takes="encoder",
        trains=True,
    ),
    Entry(
        verb="evaluate",
        path="tuning.evaluation.ModelEvaluation",
        group=TUNE,
        summary="Score a fine-tuned model on a task, with intervals over examples.",
        takes="tuned",
    ),
    Entry(
        verb="pretrain",
        path="tuning.pretraining.Pretraining",
        group=TUNE,
        summary="Pretrain a small encoder; an interrupted command goes on where it stopped.",
        takes="text",
        trains=True,
    ),
    Entry(
        verb="truncate",
        path="surgery.truncation.Truncation",
        group=SURGERY,
        summary="Score a head at every layer of fine-tuned models.",
        takes="tuned",
        protocols=("P-E2",),
        source="Phang et al. 2021",
    ),
    Entry(
        verb="skip",
        path="surgery.skipping.Skipping",
        group=SURGERY,
        summary="Score fine-tuned models without every span of blocks.",
        takes="tuned",
        protocols=("P-E3",),
        source="Phang et al. 2021",
    ),
    Entry(
        verb="freeze",
        path="surgery.freezing.Freezing",
        group=SURGERY,
        summary="Fine-tune with more and more blocks frozen, and measure what it saves.",
        takes="encoder",
        trains=True,
        protocols=("W-E6", "M-E4"),
        source="Wu et al. 2020, Merchant et al. 2020",
    ),
    Entry(
        verb="reinit",
        path="surgery.reinitialization.Reinitialization",
        group=SURGERY,
        summary="Fine-tune with the weights of some blocks re-initialized.",
        takes="encoder",
        trains=True,
        protocols=("T-E1", "T-E2", "T-E3", "M-E5", "B-5"),
        source="Tamkin et al. 2020, Merchant et al. 2020",
    ),
    Entry(
        verb="permute",
        path="surgery.permutation.Permutation",
        group=SURGERY,
        summary="Fine-tune with the blocks in other orders.",
        takes="encoder",
        trains=True,
        protocols=("T-E5",),
        source="Tamkin et al. 2020",
    ),
    Entry(
        verb="drop",
        path="surgery.dropping.Dropping",
        group=SURGERY,
        summary="Drop blocks by several strategies, then fine-tune.",
        takes="encoder",
        trains=True,
        protocols=("S-E1",),
        source="Sajjad et al. 2023",
    ),
    Entry(
        verb="prune",
        path="tuning.pruning.Pruning",
        group=SURGERY,
        summary="Export a smaller model whose loss is certified on unseen examples.",
        takes="tuned",
    ),
    Entry(
        verb="probe",
        path="probing.probing.Probing",
        group=PROBE,
        summary="Probe every layer for annotation of words, spans and trees, or for a task.",
        takes="layers",
        protocols=("M-E1", "M-E2", "T-E4"),
        source="Merchant et al. 2020, Hewitt and Manning 2019, Tenney et al. 2019, Tamkin et al. 2020",
    ),
    Entry(
        verb="change",
        path="change.change.LayerChange",
        group=CHANGE,
        summary="Compare each layer before and after fine-tuning, between seeds and a random baseline.",
        takes="changed",
        protocols=("M-E3",),
        source="Merchant et al. 2020",
    ),
    Entry(
        verb="domains",
        path="change.domains.Domains",
        group=CHANGE,
        summary="Compare the change on sentences of the task with that on other text.",
        takes="changed",
        protocols=("M-E6",),
        source="Merchant et al. 2020",
    ),
    Entry(
        verb="tuning-methods",
        path="change.tuning_methods.TuningMethods",
        group=CHANGE,
        summary="Compare where full fine-tuning, LoRA, BitFit and head-only tuning change a model.",
        takes="encoder",
        trains=True,
        protocols=("B-8",),
        source="microtome, Hu et al. 2022, Ben Zaken et al. 2022",
    ),
    Entry(
        verb="localize",
        path="change.localization.LayerLocalization",
        group=CHANGE,
        summary="Score layers for information in single neurons, beyond rotated layers.",
        takes="models",
        protocols=("W-E3", "B-12"),
        source="microtome, Wu et al. 2020",
    ),
    Entry(
        verb="trajectory",
        path="change.trajectory.Trajectory",
        group=CHANGE,
        summary="Follow layers, blocks and scores along the checkpoints of a training.",
        takes="checkpoints",
        protocols=("B-7",),
    ),
)
EXPERIMENTS: Mapping[str, Entry] = MappingProxyType({entry.verb: entry for entry in _ALL})
