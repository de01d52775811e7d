"""How does a cut model leave? As a plain folder that others load, with the evidence beside it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..encoders.versions import LIBRARIES
from ..errors import InputError
from ..findings.record import make_folder, replace_file
from ..findings.words import at_most
from ..store.files import writing_weights
from ..store.outfolder import EXPORT as RECORD
from ..store.outfolder import RESULT, TABLE, check_foreign, fill, forget, kind_of, listed
from ..training.precision import DEFAULT
from ..version import VERSION

if TYPE_CHECKING:
    from .pruned import Pruned

CARD = "README.md"
KIND, FORMAT = "prune", "microtome/prune/1"
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
        New, empty, or filled by an earlier export, whose files are replaced; others stay.

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
    model = found.model

    def write(made: Path) -> None:
        subject = found.subject
        if subject.pooling is None:
            save(model, made, subject.encoder.tokenizer)
            if subject.longest is not None:
                write_windows(made, subject.longest, subject.stride)
        else:
            _save_sentence_encoder(found, made)
        (made / CARD).write_text(card(found, head=said_of_head(made)), encoding="utf-8")
        names = [path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()]
        record = {**found.document(), "microtome": VERSION, "files": sorted(names)}
        (made / RECORD).write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", encoding="utf-8")

    fill(place, write, RECORD)
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
    check_folder(folder)
    if found.certified:
        export(found, folder)
        replace_file(folder / TABLE, found.table())
    else:
        # What an earlier run left there would pass for the result of this one.
        forget_pruned(folder)
    content = json.dumps(found.document(), allow_nan=False).encode() + b"\n"
    replace_file(make_folder(folder) / RESULT, content)


def check_folder(place: Path) -> None:
    """Refuse a folder with files of others, unless an earlier export or result lies there, too."""
    known = bool(listed(place)) if (place / RECORD).exists() else kind_of(place / RESULT) == KIND
    check_foreign(place, (RESULT, TABLE, CARD, "*.json", "*.safetensors") if known else ("*",))


def forget_pruned(place: Path) -> None:
    """Remove what an earlier pruning wrote, which would pass for the result of another one."""
    if kind_of(place / RESULT) == KIND:
        forget(place, (RESULT, TABLE))


def _save_sentence_encoder(found: Pruned, made: Path) -> None:
    """Copy the folder of a sentence encoder, with the cut model where the whole one was."""
    from ..encoders.load_errors import quiet
    from ..encoders.sentence import unpack

    source = found.subject.folder
    if source is None or not source.is_dir() or found.model is None:
        raise InputError(f"a sentence encoder must be in a folder to be exported, but {found.name} is not.")
    # Files of the store may only be read; what leaves has ordinary modes.
    kept = shutil.ignore_patterns(*_WEIGHTS, *_BESIDE)
    shutil.copytree(source, made, ignore=kept, copy_function=shutil.copyfile, dirs_exist_ok=True)
    inside = Path(unpack(str(source)).model).relative_to(source.resolve())
    net: Any = found.model.net
    with quiet(), writing_weights(made / inside):
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
        f"Task {found.task}, score {found.score}, margin {found.max_drop:g} {found.unit}"
        f"{'' if found.look is None else f', {found.look.declared()}'}. {found.chosen_on}. "
        f"{found.certified_on}. {found.scored} cuts were scored to choose; the sequence below was fixed by "
        "the examples that choose alone, and ended at the first that failed.",
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
            f"unit: {first.unit}. It speaks of this model on other examples of the same kind"
            + _arithmetic(subject.precision),
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
    versions = ", ".join(f"{name} {found.provenance[name]}" for name in ("microtome", "python", *LIBRARIES))
    return "\n".join([*lines, f"Made with {versions}.", ""])


def _arithmetic(precision: str) -> str:
    if precision == DEFAULT:
        return "."
    return (
        f", with matrix products in {precision}, as it was fine-tuned: other arithmetic may score otherwise."
    )


def _listed(blocks: tuple[int, ...]) -> str:
    return ", ".join(str(block) for block in blocks)
