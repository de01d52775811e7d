"""How does a cut model leave? As a plain folder that others load, with the evidence beside it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..findings.record import make_folder, replace_file
from ..findings.words import at_most
from ..version import VERSION

if TYPE_CHECKING:
    from .pruned import Pruned

RECORD, RESULT, CARD = "microtome.json", "result.json", "README.md"
FORMAT = "microtome/prune/1"
# Weights in any form: those of the whole model must not be taken along.
_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.h5", "*.msgpack", "*.ot", "*.onnx", "*.index.json")
_BESIDE = ("onnx", "openvino", ".git", ".cache", CARD)


def export(found: Pruned, folder: str | os.PathLike[str]) -> Path:
    """
    Write a certified model as a plain folder of transformers, or of sentence-transformers if it is one.

    Parameters
    ----------
    found : Pruned
    folder : path
        New, empty, or filled by an earlier export, which is replaced as a whole.

    Returns
    -------
    Path
        With the model, its tokenizer, `README.md` (the card) and `microtome.json` (the same for programs).
        A head that no class of the library computes lies beside the model, and the card says so.
    """
    from ..training.evaluating import write_windows
    from ..training.saving import said_of_head, save

    place = Path(folder)
    check_folder(place)
    if found.model is None:
        raise InputError(
            f"a model to be exported must be certified, but {found.name} has nothing that can be cut safely: "
            f"{found.sentences[0]}"
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    made = place.parent / f".{place.name}.{secrets.token_hex(4)}"
    try:
        subject = found.subject
        if subject.pooling is None:
            save(found.model, made, subject.encoder.tokenizer)
            if subject.longest is not None:
                write_windows(made, subject.longest, subject.stride)
        else:
            _save_sentence_encoder(found, made)
        record = {**found.document(), "microtome": VERSION}
        (made / RECORD).write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        (made / CARD).write_text(card(found, head=said_of_head(made)), encoding="utf-8")
        if place.exists():
            shutil.rmtree(place)
        made.rename(place)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return place


def write_pruned(found: Pruned, folder: Path) -> None:
    """
    Write what pruning found, and the smaller model where there is one.

    Parameters
    ----------
    found : Pruned
    folder : Path
        Of an earlier pruning, or not there yet.
    """
    if found.certified:
        export(found, folder)
        replace_file(folder / "table.parquet", found.table())
    elif folder.is_dir():
        # What an earlier run left there would pass for the result of this one.
        shutil.rmtree(folder)
    content = json.dumps(found.document(), allow_nan=False).encode() + b"\n"
    replace_file(make_folder(folder) / RESULT, content)


def check_folder(place: Path) -> None:
    """Refuse a folder that holds anything but an earlier export or result."""
    if place.is_file():
        raise InputError(f"a folder to export to must be a folder, but {place} is a file.")
    if not place.is_dir() or not any(place.iterdir()):
        return
    for name in (RECORD, RESULT):
        try:
            if json.loads((place / name).read_text(encoding="utf-8")).get("format") == FORMAT:
                return
        except (OSError, ValueError, AttributeError):
            continue
    raise InputError(
        f"a folder to export to must be empty or an earlier export, but {place} holds something else."
    )


def _save_sentence_encoder(found: Pruned, made: Path) -> None:
    """Copy the folder of a sentence encoder, with the cut model where the whole one was."""
    from ..encoders.sentence import unpack
    from ..encoders.telling import quiet

    source = found.subject.folder
    if source is None or not source.is_dir() or found.model is None:
        raise InputError(f"a sentence encoder must be in a folder to be exported, but {found.name} is not.")
    shutil.copytree(source, made, ignore=shutil.ignore_patterns(*_WEIGHTS, *_BESIDE))
    inside = Path(unpack(str(source)).model).relative_to(source.resolve())
    net: Any = found.model.net
    with quiet():
        net.save_pretrained(made / inside)


def card(found: Pruned, *, head: str | None = None) -> str:
    """
    Write the model card: what went, what is promised, on which evidence, and what it saves.

    Parameters
    ----------
    found : Pruned
    head : str, optional
        How the head is to be read, where the library would draw another one.
    """
    subject = found.subject
    library = "transformers" if subject.pooling is None else "sentence-transformers"
    base = subject.encoder.source.given
    tags = ["microtome", "pruned", *([] if subject.pooling is None else ["sentence-similarity"])]
    top = ["---", f"library_name: {library}", f"base_model: {json.dumps(str(base))}", "tags:"]
    lines = [*top, *(f"- {tag}" for tag in tags), "---", "", f"# {found.name}, {len(found.kept)} blocks", ""]
    lines += [
        f"Blocks {_listed(found.kept)} of the {found.depth} blocks of `{base}`, in their order; nothing else "
        "was changed." + (f" Tuned anew for {found.recover} updates." if found.recover else ""),
        "",
        *([] if head is None else ["## The head", "", head, ""]),
        "## What is promised",
        "",
        *(f"- {sentence}" for sentence in found.sentences),
        "",
        "## Evidence",
        "",
        f"Task {found.task}, score {found.score}, margin {found.max_drop:g} {found.unit}, declared before "
        f"scores were seen. {found.chosen_on}. {found.certified_on}. {found.scored} cuts were scored to "
        "choose; the sequence below was fixed before the examples that certify were looked at, and ended at "
        "the first that failed.",
        "",
        "| blocks removed | cost on the choosing examples | drop on the certifying ones | at most | p |",
        "|---|---|---|---|---|",
    ]
    for step in found.steps:
        drop = step.found
        lines.append(
            f"| {_listed(found.without(step.candidate.what))} | {step.candidate.cost:.2f} | {drop.drop:.2f} "
            f"| {at_most(drop.upper)} | {drop.p:.2g} |"
        )
    if found.steps:
        first = found.steps[0].found
        lines += [
            "",
            f"Test: {first.method}; one-sided, level {first.level:g}; {first.n:,} examples, independent "
            f"unit: {first.unit}. It speaks of this model on other examples of the same kind.",
        ]
    if found.speed is not None:
        lines += ["", "## Before and after", "", "| | before | after | ratio [range] |", "|---|---|---|---|"]
        lines += [f"| {' | '.join(row)} |" for row in found.speed.table()]
        lines += [
            "",
            f"Measured in turns, {found.speed.rounds} rounds, on {found.speed.device} with "
            f"{found.speed.threads} threads" + (f"; {found.speed.doubt}" if found.speed.doubt else "."),
        ]
    lines += ["", "## To repeat", "", "```console", found.provenance.get("command") or "prune", "```", ""]
    versions = ", ".join(f"{name} {value}" for name, value in found.provenance["versions"].items())
    return "\n".join([*lines, f"Made with {versions}.", ""])


def _listed(blocks: tuple[int, ...]) -> str:
    return ", ".join(str(block) for block in blocks)
