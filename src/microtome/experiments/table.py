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

# What an experiment needs, by what it takes.
NEEDS: Mapping[str, str] = MappingProxyType(
    {
        "tuned": "a fine-tuned model",
        "encoder": "an encoder, which is fine-tuned",
        "layers": "an encoder and an annotated corpus",
        "changed": "a model before and after fine-tuning, and texts",
        "models": "models and a text",
        "checkpoints": "checkpoints of a training, and a text",
        "files": "files or folders of layers",
        "text": "a text",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """
    One experiment.

    Parameters
    ----------
    verb : str
        On the command line; the function in Python has the same name, with underscores.
    name : str
        Of its results, as in "microtome/truncation/1".
    path : str
        Of the class, below this package.
    group : str
        Where `microtome --help` lists it.
    title : str
        Of its sections in a report.
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
    layered : tuple of str
        Axes of its curves that count layers or blocks, so that a layer of a map can be found on them.
    """

    verb: str
    name: str
    path: str
    group: str
    title: str
    summary: str
    takes: Literal["files", "tuned", "encoder", "layers", "changed", "models", "checkpoints", "text"]
    trains: bool = False
    protocols: tuple[str, ...] = ()
    source: str = "microtome"
    layered: tuple[str, ...] = ()

    def load(self) -> type[Experiment]:
        """Import the class."""
        module, _, name = self.path.rpartition(".")
        return getattr(import_module(f".{module}", __package__), name)


_ALL = (
    Entry(
        verb="similarity",
        name="similarity",
        path="similarity.matrix.SimilarityMatrix",
        group=COMPARE,
        title="Similarity of layers",
        summary="Compare all layers of two files or folders of layers, or of one with itself.",
        takes="files",
    ),
    Entry(
        verb="extract",
        name="extract",
        path="similarity.extraction.Extraction",
        group=COMPARE,
        title="Recorded layers",
        summary="Run a model over a corpus and record every layer.",
        takes="models",
    ),
    Entry(
        verb="compare",
        name="similarity",
        path="similarity.comparison.ModelComparison",
        group=COMPARE,
        title="Similarity of layers",
        summary="Compare all layers of all models on the same rows of a corpus.",
        takes="models",
        protocols=("W-E1", "W-E2", "P-E1"),
        source="Wu et al. 2020, Phang et al. 2021",
    ),
    Entry(
        verb="finetune",
        name="finetune",
        path="tuning.finetuning.FineTuning",
        group=TUNE,
        title="Fine-tuning",
        summary="Fine-tune a model on a task, once per seed, and score it.",
        takes="encoder",
        trains=True,
    ),
    Entry(
        verb="evaluate",
        name="evaluate",
        path="tuning.evaluation.ModelEvaluation",
        group=TUNE,
        title="Evaluation",
        summary="Score a fine-tuned model on a task, with intervals over examples.",
        takes="tuned",
    ),
    Entry(
        verb="pretrain",
        name="pretrain",
        path="tuning.pretraining.Pretraining",
        group=TUNE,
        title="Pretraining",
        summary="Pretrain a small encoder; an interrupted command resumes.",
        takes="text",
        trains=True,
    ),
    Entry(
        verb="truncate",
        name="truncation",
        path="surgery.truncation.Truncation",
        group=SURGERY,
        title="Truncation",
        summary="Score a head at every layer of fine-tuned models.",
        takes="tuned",
        protocols=("P-E2",),
        source="Phang et al. 2021",
        layered=("layers kept",),
    ),
    Entry(
        verb="skip",
        name="skipping",
        path="surgery.skipping.Skipping",
        group=SURGERY,
        title="Skipping spans of blocks",
        summary="Score fine-tuned models without every span of blocks.",
        takes="tuned",
        protocols=("P-E3",),
        source="Phang et al. 2021",
    ),
    Entry(
        verb="freeze",
        name="freezing",
        path="surgery.freezing.Freezing",
        group=SURGERY,
        title="Freezing",
        summary="Fine-tune with more and more blocks frozen, and measure what it saves.",
        takes="encoder",
        trains=True,
        protocols=("W-E6", "M-E4"),
        source="Wu et al. 2020, Merchant et al. 2020",
        layered=("blocks frozen",),
    ),
    Entry(
        verb="reinit",
        name="reinitialization",
        path="surgery.reinitialization.Reinitialization",
        group=SURGERY,
        title="Blocks re-initialized",
        summary="Fine-tune with the weights of some blocks re-initialized.",
        takes="encoder",
        trains=True,
        protocols=("T-E1", "T-E2", "T-E3", "M-E5", "B-5"),
        source="Tamkin et al. 2020, Merchant et al. 2020",
        layered=("block re-initialized", "first block re-initialized", "blocks kept"),
    ),
    Entry(
        verb="permute",
        name="permutation",
        path="surgery.permutation.Permutation",
        group=SURGERY,
        title="Blocks in other orders",
        summary="Fine-tune with the blocks in other orders.",
        takes="encoder",
        trains=True,
        protocols=("T-E5",),
        source="Tamkin et al. 2020",
        layered=("first block kept", "block moved to the top", "lower of the swapped blocks"),
    ),
    Entry(
        verb="drop",
        name="dropping",
        path="surgery.dropping.Dropping",
        group=SURGERY,
        title="Blocks dropped",
        summary="Drop blocks by several strategies, then fine-tune.",
        takes="encoder",
        trains=True,
        protocols=("S-E1",),
        source="Sajjad et al. 2023",
    ),
    Entry(
        verb="prune",
        name="prune",
        path="tuning.pruning.Pruning",
        group=SURGERY,
        title="Pruning",
        summary="Export a smaller model whose drop in score is bounded on unseen examples.",
        takes="tuned",
    ),
    Entry(
        verb="probe",
        name="probing",
        path="probing.probing.Probing",
        group=PROBE,
        title="What can be read out of each layer",
        summary="Probe every layer for annotation of words, spans and trees, or for a task.",
        takes="layers",
        protocols=("M-E1", "M-E2", "T-E4"),
        source="Merchant et al. 2020, Hewitt and Manning 2019, Tenney et al. 2019, Tamkin et al. 2020",
        layered=("layer",),
    ),
    Entry(
        verb="change",
        name="change",
        path="change.change.LayerChange",
        group=CHANGE,
        title="What fine-tuning changed",
        summary="Compare each layer before and after fine-tuning, between seeds and a random baseline.",
        takes="changed",
        protocols=("M-E3",),
        source="Merchant et al. 2020",
        layered=("layer",),
    ),
    Entry(
        verb="domains",
        name="domains",
        path="change.domains.Domains",
        group=CHANGE,
        title="In and out of domain",
        summary="Compare the change on sentences of the task with that on other text.",
        takes="changed",
        protocols=("M-E6",),
        source="Merchant et al. 2020",
        layered=("layer",),
    ),
    Entry(
        verb="tuning-methods",
        name="tuning_ways",
        path="change.tuning_methods.TuningMethods",
        group=CHANGE,
        title="Tuning methods",
        summary="Compare where full fine-tuning, LoRA, BitFit and head-only tuning change a model.",
        takes="encoder",
        trains=True,
        protocols=("B-8",),
        source="microtome, Hu et al. 2022, Ben Zaken et al. 2022",
        layered=("layer",),
    ),
    Entry(
        verb="localize",
        name="localization",
        path="change.localization.LayerLocalization",
        group=CHANGE,
        title="Single neurons",
        summary="Score layers for information in single neurons, compared with randomly rotated layers.",
        takes="models",
        protocols=("W-E3", "B-12"),
        source="microtome, Wu et al. 2020",
        layered=("layer",),
    ),
    Entry(
        verb="trajectory",
        name="trajectory",
        path="change.trajectory.Trajectory",
        group=CHANGE,
        title="Along a training",
        summary="Follow layers, blocks and scores along the checkpoints of a training.",
        takes="checkpoints",
        protocols=("B-7",),
        layered=("layers kept",),
    ),
)
EXPERIMENTS: Mapping[str, Entry] = MappingProxyType({entry.verb: entry for entry in _ALL})


def entry_of(name: str) -> Entry | None:
    """The first experiment whose results have a name; None where there is none."""
    return next((entry for entry in EXPERIMENTS.values() if entry.name == name), None)


def is_layered(name: str, axis: str) -> bool:
    """Whether an axis of the curves of an experiment counts layers or blocks."""
    entry = entry_of(name)
    return entry is not None and axis in entry.layered
