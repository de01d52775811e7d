"""The main findings of the demonstration: a few sentences of the report on each encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..zoo.designs import DESIGNS
from .plan import DemoPlan

# Results on the random baseline lie apart: by its name, a report would put it before the encoders.
FLOOR = "floor"


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
    Pick the findings that answer what was asked: the score, the blocks, the cuts.

    Parameters
    ----------
    document : mapping
        Of the format microtome/report/1, on the folder that the demonstration filled.
    plan : DemoPlan

    Returns
    -------
    tuple of EncoderFindings
        One per encoder, and last the random baseline: what the architecture alone gives.
    """
    files = {section["id"]: section["file"] for section in document["sections"]}
    texts: dict[str, list[str]] = {}
    for finding in document["findings"]:
        text = f"{finding['text']} {finding['evidence']}".rstrip()
        texts.setdefault(files.get(finding["section"], ""), []).append(text)
    blocks = {
        (section["file"], block["model"]): block["text"]
        for section in document["sections"]
        for block in section.get("blocks", ())
    }

    # Runs that failed are listed too: a score may be that of the one seed that is left.
    scores = {
        section["file"]: section["sentences"]
        for section in document["sections"]
        if section["kind"] == "scores"
    }

    def first(folder: str) -> list[str]:
        return texts.get(f"{folder}/result.json", [])[:1]

    def tuning(folder: str) -> list[str]:
        return scores.get(f"{folder}/result.json", [])

    out = []
    for name in plan.encoders:
        file = f"compare/{name}/result.json"
        tuned = [blocks[file, stack] for stack in tuned_names(name, plan) if (file, stack) in blocks]
        parts = [first(f"{what}/{name}") for what in ("truncate", "prune")]
        sentences = (*tuning(f"finetune/{name}"), *tuned, *(text for part in parts for text in part))
        title = DESIGNS[name].title if name in DESIGNS else name
        out.append(EncoderFindings(name=name, title=title, sentences=sentences))
    baseline = random_name(plan)
    out.append(
        EncoderFindings(
            name=baseline,
            title=f"the floor: {plan.encoders[0]} with re-initialized weights",
            sentences=(*tuning(f"{FLOOR}/finetune"), *first(f"{FLOOR}/evaluate")),
        )
    )
    return tuple(out)


def random_name(plan: DemoPlan) -> str:
    """The name of the random baseline of the first encoder."""
    return f"{plan.encoders[0]}-random{plan.random_seed}"


def tuned_names(name: str, plan: DemoPlan) -> list[str]:
    """What an encoder is called after fine-tuning, by seed."""
    return [f"{name}-seed{seed}" for seed in plan.seeds]
