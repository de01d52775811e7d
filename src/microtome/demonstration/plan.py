"""The plan of the demonstration, and the main findings of its report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..arguments import check_value
from ..errors import must
from ..findings.results import plain
from ..zoo.designs import DESIGNS

if TYPE_CHECKING:
    from .running import Demonstration

# Updates and learning rates with which encoders learn the task, found by trying; the usual ones for others.
LEARNED: Mapping[str, tuple[int, float]] = MappingProxyType(
    {"masked": (180, 3e-4), "replaced": (180, 1.5e-4), "every": (180, 3e-4)}
)
USUAL = (180, 1.5e-4)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPlan:
    """
    Encoders, examples and updates of a demonstration.

    Parameters
    ----------
    encoders : tuple of str
        Of the package.
    task : str
        A generated one, so that nothing must be fetched and there are always unseen examples.
    seeds : tuple of int
        Of fine-tuning.
    random_seed : int
        Seed of the random baseline's weights.
    train, rest, validation, test : int
        Examples: to train on; of the same split to certify cuts on; to look at layers and to choose cuts;
        and to look at once, at the end.
    head_examples : int
        Examples that heads at single layers learn from.
    batch : int
        Examples of an update.
    steps : int, optional
        Updates of a fine-tuning.
    rate : float, optional
        The largest learning rate; it and the updates are those of `LEARNED` when absent.
    longest : int
        Tokens of an example at most.
    max_drop : float
        What pruning may lose, in points of 100.
    """

    encoders: tuple[str, ...] = ("masked",)
    task: str = "polarity"
    seeds: tuple[int, ...] = (1,)
    random_seed: int = 0
    train: int = 2_000
    rest: int = 400
    validation: int = 160
    test: int = 300
    head_examples: int = 200
    batch: int = 8
    steps: int | None = None
    rate: float | None = None
    longest: int = 40
    max_drop: float = 5.0

    def __post_init__(self) -> None:
        if not self.encoders or len(set(self.encoders)) < len(self.encoders):
            raise must("encoders", "one or more, each once", self.encoders)
        check_value("seeds", "Sequence[int]", self.seeds)
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise must("seeds", "one or more, each once", self.seeds)
        for name in ("train", "rest", "validation", "test", "head_examples", "batch"):
            if getattr(self, name) < 1:
                raise must(name, "at least 1", getattr(self, name))
        if self.head_examples > self.train:
            raise must("head_examples", f"at most the {self.train:,} examples of train", self.head_examples)

    @property
    def sizes(self) -> Mapping[str, int]:
        """Number of examples of each split of the task."""
        return MappingProxyType(
            {"train": self.train + self.rest, "validation": self.validation, "test": self.test}
        )

    def training(self, name: str) -> Mapping[str, Any]:
        """
        Options of `finetune` beside the encoder, the task and the seed.

        Parameters
        ----------
        name : str
            Of the encoder.
        """
        steps, rate = LEARNED.get(name, USUAL)
        return MappingProxyType(
            {
                "recipe": "devlin2019",
                "train_size": self.train,
                "steps": steps if self.steps is None else self.steps,
                "batch": self.batch,
                "rate": rate if self.rate is None else self.rate,
                "longest": self.longest,
                # So few updates leave no time for averages to warm up, nor for padding.
                "bias_correction": True,
                "bucket": True,
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderFindings:
    """
    The findings on one encoder.

    Parameters
    ----------
    name, title : str
    sentences : tuple of str
        Of the report, word for word.
    """

    name: str
    title: str
    sentences: tuple[str, ...]


def main_findings(document: Mapping[str, Any], plan: DemoPlan) -> tuple[EncoderFindings, ...]:
    """
    Select the main findings: scores, blocks and cuts.

    Parameters
    ----------
    document : mapping
        Of the format microtome/report/1, on the folder that the demonstration filled.
    plan : DemoPlan

    Returns
    -------
    tuple of EncoderFindings
        One per encoder.
    """
    sentences: dict[str, list[str]] = {}
    blocks: dict[tuple[str, str], str] = {}
    for section in document["sections"]:
        folder = section["file"].removesuffix("/result.json")
        sentences.setdefault(folder, []).extend(section["sentences"])
        blocks |= {(folder, block["model"]): block["text"] for block in section.get("blocks", ())}

    def first(folder: str) -> list[str]:
        return sentences.get(folder, [])[:1]

    out = []
    for name in plan.encoders:
        stacks = [(f"compare/{name}", stack) for stack in tuned_names(name, plan)]
        lines = [
            # Runs that failed are listed too: a score may be that of the one seed that is left.
            *sentences.get(f"finetune/{name}", []),
            *(blocks[stack] for stack in stacks if stack in blocks),
            *first(f"truncate/{name}"),
            *first(f"prune/{name}"),
        ]
        title = DESIGNS[name].title if name in DESIGNS else name
        out.append(EncoderFindings(name=name, title=title, sentences=tuple(lines)))
    return tuple(out)


def tuned_names(name: str, plan: DemoPlan) -> list[str]:
    """Names of the fine-tuned models of an encoder, by seed."""
    return [f"{name}-seed{seed}" for seed in plan.seeds]


def sentences_of(demonstration: Demonstration) -> list[str]:
    """The main findings of every encoder, how the exported models did, and where the report is."""
    sentences = []
    for findings in demonstration.findings:
        lines = [f"- {text}" for text in findings.sentences]
        sentences += [f"{findings.name} ({findings.title})", *lines, ""]
    unseen = [model.sentence() for model in demonstration.unseen]
    for text in unseen or ["No model was exported: no cut was shown to be safe."]:
        sentences += [text, ""]
    count = len(demonstration.document["findings"])
    return [*sentences, f"The report, with {count} findings in all: {demonstration.page}"]


def document_of(demonstration: Demonstration) -> dict[str, Any]:
    """The same for JSON."""
    exported = [
        {
            "name": model.name,
            "kept": model.kept,
            "depth": model.depth,
            "folder": str(model.folder),
            **asdict(model.drop),
            "safe": model.drop.safe,
            "sentence": model.sentence(),
        }
        for model in demonstration.unseen
    ]
    document = {
        "format": "microtome/demo/1",
        "report": str(demonstration.page),
        "findings": [asdict(findings) for findings in demonstration.findings],
        "exported": exported,
        "seconds": demonstration.seconds,
    }
    return plain(document)
