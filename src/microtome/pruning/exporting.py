"""Export of pruned models: a folder that stock libraries load, with its model card and the evidence."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..encoders.versions import LIBRARIES
from ..errors import InputError
from ..findings.claims.render import headline
from ..findings.words import at_most, over
from ..store.files import write_whole, writing_weights
from ..store.outfolder import EXPORT as RECORD
from ..store.outfolder import RESULT, TABLE, check_foreign, fill, forget, kind_of, listed, make_folder
from ..training.precision import DEFAULT
from ..version import VERSION

if TYPE_CHECKING:
    from .pruning import Pruned

CARD = "README.md"
KIND, FORMAT = "prune", "microtome/prune/1"
# Weights in any form: those of the whole model must not be taken along.
_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.h5", "*.msgpack", "*.ot", "*.onnx", "*.index.json")
_BESIDE = ("onnx", "openvino", ".git", ".cache", CARD)


def export(pruned: Pruned, folder: str | os.PathLike[str]) -> Path:
    """
    Write a certified model as a plain folder of transformers, or of sentence-transformers if it is one.

    Parameters
    ----------
    pruned : Pruned
    folder : path
        New, empty, or filled by an earlier export, whose files are replaced; others stay.

    Returns
    -------
    Path
        With the model, its tokenizer, `README.md` (the card) and `microtome.json` (the same for programs).
        A head that no class of the library computes lies beside the model, and the card says so.
    """
    from ..training.evaluating import write_windows
    from ..training.models.saving import said_of_head, save

    place = Path(folder)
    check_folder(place)
    if pruned.model is None:
        reason = headline(pruned.claims[0])
        raise InputError(f"a model to be exported must be certified, but {pruned.name} is not: {reason}")
    model = pruned.model

    def write(staging: Path) -> None:
        source = pruned.whole
        if source.pooling is None:
            save(model, staging, source.tokenizer)
            if source.longest is not None:
                write_windows(staging, source.longest, source.stride)
        else:
            _save_sentence_encoder(pruned, staging)
        (staging / CARD).write_text(card(pruned, head=said_of_head(staging)), encoding="utf-8")
        names = [path.relative_to(staging).as_posix() for path in staging.rglob("*") if path.is_file()]
        record = {**pruned.document(), "microtome": VERSION, "files": sorted(names)}
        (staging / RECORD).write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", encoding="utf-8")

    fill(place, write, RECORD)
    return place


def write_pruned(pruned: Pruned, folder: Path) -> tuple[Path, ...]:
    """
    Write what pruning found, and the smaller model where there is one.

    Parameters
    ----------
    pruned : Pruned
    folder : Path
        Of an earlier pruning, or not there yet.

    Returns
    -------
    tuple of Path
    """
    check_folder(folder)
    if pruned.certified:
        export(pruned, folder)
        write_whole(folder / TABLE, [pruned.table()])
    else:
        # What an earlier run left there would pass for the result of this one.
        forget_pruned(folder)
    content = json.dumps(pruned.document(), allow_nan=False).encode() + b"\n"
    write_whole(make_folder(folder) / RESULT, [content])
    return (folder / RESULT, folder / TABLE) if pruned.certified else (folder / RESULT,)


def check_folder(place: Path) -> None:
    """Refuse a folder with files of others, unless an earlier export or result lies there, too."""
    earlier = bool(listed(place)) if (place / RECORD).exists() else kind_of(place / RESULT) == KIND
    check_foreign(place, (RESULT, TABLE, CARD, "*.json", "*.safetensors") if earlier else ("*",))


def forget_pruned(place: Path) -> None:
    """Remove what an earlier pruning wrote, which would pass for the result of another one."""
    if kind_of(place / RESULT) == KIND:
        forget(place, (RESULT, TABLE))


def _save_sentence_encoder(pruned: Pruned, folder: Path) -> None:
    """Copy the folder of a sentence encoder, with the cut model where the whole one was."""
    from ..encoders.library import quiet
    from ..encoders.locations import unpack

    source = pruned.whole.folder
    if source is None or not source.is_dir() or pruned.model is None:
        raise InputError(f"a sentence encoder must be in a folder to be exported, but {pruned.name} is not.")
    # Files of the store may only be read; what leaves has ordinary modes.
    ignored = shutil.ignore_patterns(*_WEIGHTS, *_BESIDE)
    shutil.copytree(source, folder, ignore=ignored, copy_function=shutil.copyfile, dirs_exist_ok=True)
    inside = Path(unpack(str(source)).model).relative_to(source.resolve())
    net: Any = pruned.model.net
    with quiet(), writing_weights(folder / inside):
        net.save_pretrained(folder / inside)


def card(pruned: Pruned, *, head: str | None = None) -> str:
    """
    Write the model card: what went, what is promised, on which evidence, and what it saves.

    Parameters
    ----------
    pruned : Pruned
    head : str, optional
        How the head is to be read, where the library would draw another one.
    """
    source = pruned.whole
    library = "transformers" if source.pooling is None else "sentence-transformers"
    base = source.encoder.source.given
    tags = ["microtome", "pruned", *([] if source.pooling is None else ["sentence-similarity"])]
    top = ["---", f"library_name: {library}", f"base_model: {json.dumps(str(base))}", "tags:"]
    lines = [
        *top,
        *(f"- {tag}" for tag in tags),
        "---",
        "",
        f"# {pruned.name}, {len(pruned.kept)} blocks",
        "",
    ]
    lines += [
        f"Blocks {_listed(pruned.kept)} of the {pruned.depth} blocks of `{base}`, in order; nothing else "
        "was changed."
        + (f" Fine-tuned after the cut for {pruned.recover} updates." if pruned.recover else ""),
        "",
        *([] if head is None else ["## The head", "", head, ""]),
        "## What is promised",
        "",
        *(f"- {sentence}" for sentence in pruned.findings),
        "",
        "## Evidence",
        "",
        f"Task {pruned.task}, score {pruned.score}, margin {pruned.max_drop:g} {pruned.unit}"
        f"{'' if pruned.look is None else f', {pruned.look.declared()}'}. {pruned.chosen_on}. "
        f"{pruned.certified_on}. {pruned.scored} cuts were scored to choose ({pruned.tried}); the sequence "
        "below was fixed by the examples that choose alone, and ended at the first that failed.",
        "",
        "| blocks removed | cost on the choosing examples | drop on the certifying ones | at most | p |",
        "|---|---|---|---|---|",
    ]
    for step in pruned.steps:
        drop = step.found
        lines.append(
            f"| {_listed(pruned.without(step.candidate.what))} | {step.candidate.cost:.2f} | {drop.drop:.2f} "
            f"| {at_most(drop.upper)} | {drop.p:.2g} |"
        )
    if pruned.steps:
        first = pruned.steps[0].found
        lines += [
            "",
            f"Test: {first.method}; one-sided, level {first.level:g}; {first.n:,} examples, "
            f"{over(first.unit)}. It speaks of this model on other examples of the same kind"
            + _arithmetic(source.precision),
        ]
    if pruned.speed is not None:
        lines += ["", "## Before and after", "", "| | before | after | ratio [range] |", "|---|---|---|---|"]
        lines += [f"| {' | '.join(row)} |" for row in pruned.speed.table()]
        lines += [
            "",
            f"Measured in turns, {pruned.speed.rounds} rounds, on {pruned.speed.device} with "
            f"{pruned.speed.threads} threads" + (f"; {pruned.speed.doubt}" if pruned.speed.doubt else "."),
        ]
    lines += ["", "## To repeat", "", "```console", pruned.provenance.get("command") or "prune", "```", ""]
    versions = ", ".join(f"{name} {pruned.provenance[name]}" for name in ("microtome", "python", *LIBRARIES))
    return "\n".join([*lines, f"Made with {versions}.", ""])


def _arithmetic(dtype: str) -> str:
    if dtype == DEFAULT:
        return "."
    return f", with matrix products in {dtype}, as it was fine-tuned: other arithmetic may score otherwise."


def _listed(blocks: tuple[int, ...]) -> str:
    return ", ".join(str(block) for block in blocks)
