"""What is to be read first? Of all that the report found, a few sentences on each encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..zoo.designs import DESIGNS
from .plan import Plan

# Results on the random twin lie apart: by its name, a report would put it before the encoders.
FLOOR = "floor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """
    What is said of one encoder.

    Parameters
    ----------
    name, title : str
    sentences : tuple of str
        Of the report, word for word.
    """

    name: str
    title: str
    sentences: tuple[str, ...]


def main_findings(document: Mapping[str, Any], plan: Plan) -> tuple[Told, ...]:
    """
    Pick the findings that answer what was asked: the score, the blocks, the cuts.

    Parameters
    ----------
    document : mapping
        Of the format microtome/report/1, on the folder that the demonstration filled.
    plan : Plan

    Returns
    -------
    tuple of Told
        One an encoder, and last the random twin: what the shape alone gives.
    """
    files = {one["id"]: one["file"] for one in document["sections"]}
    said: dict[str, list[str]] = {}
    for one in document["findings"]:
        said.setdefault(files.get(one["section"], ""), []).append(one["text"])
    blocks = {
        (one["file"], block["model"]): block["text"]
        for one in document["sections"]
        for block in one.get("blocks", ())
    }

    # Runs that failed are told too: a score may be that of the one seed that is left.
    scores = {one["file"]: one["sentences"] for one in document["sections"] if one["kind"] == "scores"}

    def first(folder: str) -> list[str]:
        return said.get(f"{folder}/result.json", [])[:1]

    def tuning(folder: str) -> list[str]:
        return scores.get(f"{folder}/result.json", [])

    out = []
    for name in plan.encoders:
        file = f"compare/{name}/result.json"
        tuned = [blocks[file, stack] for stack in tuned_names(name, plan) if (file, stack) in blocks]
        parts = [first(f"{what}/{name}") for what in ("truncate", "prune")]
        sentences = (*tuning(f"finetune/{name}"), *tuned, *(text for part in parts for text in part))
        title = DESIGNS[name].title if name in DESIGNS else name
        out.append(Told(name=name, title=title, sentences=sentences))
    twin = twin_name(plan)
    out.append(
        Told(
            name=twin,
            title=f"the floor: {plan.encoders[0]} with weights drawn anew",
            sentences=(*tuning(f"{FLOOR}/finetune"), *first(f"{FLOOR}/evaluate")),
        )
    )
    return tuple(out)


def twin_name(plan: Plan) -> str:
    """What the random twin of the first encoder is called."""
    return f"{plan.encoders[0]}-random{plan.twin}"


def tuned_names(name: str, plan: Plan) -> list[str]:
    """What an encoder is called after fine-tuning, by seed."""
    return [f"{name}-seed{seed}" for seed in plan.seeds]
