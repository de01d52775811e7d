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
    baseline = random_name(plan)
    lines = [*sentences.get(f"{FLOOR}/finetune", []), *first(f"{FLOOR}/evaluate")]
    title = f"the floor: {plan.encoders[0]} with re-initialized weights"
    return (*out, EncoderFindings(name=baseline, title=title, sentences=tuple(lines)))


def random_name(plan: DemoPlan) -> str:
    """The name of the random baseline of the first encoder."""
    return f"{plan.encoders[0]}-random{plan.random_seed}"


def tuned_names(name: str, plan: DemoPlan) -> list[str]:
    """What an encoder is called after fine-tuning, by seed."""
    return [f"{name}-seed{seed}" for seed in plan.seeds]
