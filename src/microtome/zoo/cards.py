"""What is known of a small encoder? A card beside its weights, in numbers and in words."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..encoders.sentence import read_json
from ..encoders.shipped import WEIGHTS, weights_digest
from ..errors import InputError, must, unknown
from .designs import DESIGNS, Design, find_design
from .text import TOKENIZER

FORMAT = "microtome/zoo-card/1"
CARD, README = "card.json", "README.md"
MISSING = "not measured"
# What accuracy on unseen text counts, by objective.
_ASKED = {
    "masked": "hidden tokens guessed",
    "every": "hidden tokens guessed",
    "replaced": "tokens told rightly",
    "causal": "next tokens guessed",
}
_CORPUS = ("name", "license", "digest")
_HELD_OUT = ("accuracy", "n", "interval", "unigram")
_COMPARED = ("rates", "epochs", "model", "random", "difference")


def write_card(
    folder: str | Path,
    *,
    design: Design | Mapping[str, Any],
    seed: int,
    license: str | None = None,
    corpus: Mapping[str, Any] | None = None,
    steps: int | None = None,
    tokens: int | None = None,
    loss: float | None = None,
    seconds: float | None = None,
    device: str | None = None,
    torch: str | None = None,
    command: str | None = None,
    held_out: Mapping[str, Any] | None = None,
    scores: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """
    Write what is known of an encoder into its folder: `card.json`, and `README.md` made from it.

    What the files themselves say is read from them: hashes, size and number of parameters.

    Parameters
    ----------
    folder : path
        With `model.safetensors` and `tokenizer.json`; the encoder is called after it.
    design : Design or mapping
        A design or its specification.
    seed : int
        Of the pretraining.
    license : str, optional
        Of the weights, as the hub names licenses.
    corpus : mapping, optional
        `name`, `license` and `digest` of what it read.
    steps, tokens : int, optional
        Updates, those of the design when absent, and tokens read in them.
    loss : float, optional
        At the end.
    seconds : float, optional
    device, torch : str, optional
        Where it was made, and with which version.
    command : str, optional
        What makes it again.
    held_out : mapping, optional
        On unseen text: `accuracy` of the guesses, of hidden tokens or as the objective has it, `n` of
        them, `interval`, and `unigram`, what the most frequent token would get.
    scores : mapping of str to mapping, optional
        By task: `rates` and `epochs` that were tried; `model`, `random` and `difference`, each with `mean`,
        `low`, `high`, `n` and `best`.

    Returns
    -------
    dict
        What `card.json` holds.
    """
    place = Path(folder)
    made = _design(design)
    card = {
        "format": FORMAT,
        "name": place.resolve().name,
        "title": made.title,
        "objective": made.objective,
        "differs": made.differs,
        "design": made.specification(),
        "seed": seed,
        "license": license,
        "corpus": None if corpus is None else _only("a corpus", corpus, _CORPUS),
        "tokenizer": {"sha256": _digest(place / TOKENIZER)},
        "steps": made.steps if steps is None else steps,
        "tokens": tokens,
        "loss": loss,
        "seconds": seconds,
        "device": device,
        "torch": torch,
        "command": command,
        "sha256": weights_digest(place),
        "bytes": (place / WEIGHTS).stat().st_size,
        "parameters": count_parameters(place / WEIGHTS),
        "held_out": None if held_out is None else _only("held_out", held_out, _HELD_OUT),
        "scores": {task: _only(f"scores of {task}", one, _COMPARED) for task, one in (scores or {}).items()},
    }
    try:
        written = json.dumps(card, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"facts of a card must be plain data and finite numbers, but got: {error}."
        ) from error
    (place / CARD).write_text(f"{written}\n", encoding="utf-8")
    # As it will be read: pairs have become lists.
    card = json.loads(written)
    (place / README).write_text(readme(card), encoding="utf-8")
    return card


def read_card(folder: str | Path) -> dict[str, Any]:
    """Read the card in a folder, or say that it is none."""
    place = Path(folder) / CARD
    card = read_json(place)
    if not isinstance(card, dict) or card.get("format") != FORMAT:
        got = card.get("format") if isinstance(card, dict) else type(card).__name__
        raise must(f"the format of {place}", FORMAT, got)
    return card


def check_card(folder: str | Path) -> dict[str, Any]:
    """
    See that weights and tokenizer in a folder are those of its card.

    Parameters
    ----------
    folder : path

    Returns
    -------
    dict
        The card.

    Raises
    ------
    InputError
        Where a file is another one.
    """
    place, card = Path(folder), read_card(folder)
    found = {WEIGHTS: weights_digest(place), TOKENIZER: _digest(place / TOKENIZER)}
    told = {WEIGHTS: card["sha256"], TOKENIZER: card["tokenizer"]["sha256"]}
    for name, digest in found.items():
        if digest != told[name]:
            raise InputError(
                f"{place / name} must have the SHA-256 {told[name]} of its card, but it has {digest}."
            )
    return card


def count_parameters(file: Path) -> int:
    """Count the numbers in a file of weights by its header alone."""
    try:
        with file.open("rb") as opened:
            (size,) = struct.unpack("<Q", opened.read(8))
            header = json.loads(opened.read(size))
        shapes = [one["shape"] for name, one in header.items() if name != "__metadata__"]
    except (OSError, ValueError, KeyError, struct.error) as error:
        raise InputError(f"{file} must be a file of safetensors, but got: {error}.") from error
    total = 0
    for shape in shapes:
        count = 1
        for side in shape:
            count *= side
        total += count
    return total


def readme(card: Mapping[str, Any]) -> str:
    """Write a card as a page that people and the hub can read."""
    design, corpus = card["design"], card["corpus"] or {}
    license = card["license"]
    # A license that is not told is none that the hub could name.
    head = ["---", f"license: {json.dumps(license or 'other')}", "language:", "- en"]
    head += ["library_name: transformers", "tags:", "- microtome", f"- {card['objective']}", "---", ""]
    kind = "share one block" if design["shared"] else f"{design['heads']} heads"
    rows = {
        "Objective": card["title"],
        "Sets it apart besides": card["differs"] or "nothing",
        "Shape": f"{design['layers']} layers of width {design['width']}, {kind}, inner {design['inner']}",
        "Parameters": _count(card["parameters"]),
        "Size": f"{card['bytes'] / 1e6:.1f} MB",
        "SHA-256 of the weights": f"`{card['sha256']}`",
        "SHA-256 of the tokenizer": f"`{card['tokenizer']['sha256']}`",
        "Text": corpus.get("name") or MISSING,
        "License of the text": corpus.get("license") or MISSING,
        "Digest of the text": f"`{corpus['digest']}`" if corpus.get("digest") else MISSING,
        "License of the weights": license or MISSING,
        "Seed": str(card["seed"]),
        "Updates": _count(card["steps"]),
        "Tokens read": _count(card["tokens"]),
        "Loss at the end": _number(card["loss"]),
        "Time": MISSING if card["seconds"] is None else f"{card['seconds']:,.0f} s",
        "Made on": ", torch ".join(one for one in (card["device"], card["torch"]) if one) or MISSING,
        "Held-out text": _held_out(card["held_out"], card["objective"]),
    }
    lines = [*head, f"# {card['name']}: {card['title']}", ""]
    lines += [
        "A small English text encoder. Its siblings read the same text through the same tokenizer and are "
        f'built of the same block. `microtome.load("zoo:{card["name"]}")`, or stock transformers.',
        "",
        *("| | |", "|---|---|"),
        *(f"| {name} | {_cell(value)} |" for name, value in rows.items()),
        "",
        *("## Scores", ""),
    ]
    lines += _scores(card["scores"])
    lines += ["", "## Made by", ""]
    lines += ["```console", card["command"], "```"] if card["command"] else [f"The command is {MISSING}."]
    return "\n".join([*lines, ""])


def _scores(scores: Mapping[str, Any]) -> list[str]:
    if not scores:
        return [f"Tasks: {MISSING}."]
    lines = [
        "Beside a random twin of the same shape, both tuned over the same learning rates and lengths of "
        "training; intervals over seeds.",
        "",
        "| task | encoder | random twin | difference | rates tried | epochs tried |",
        "|---|---|---|---|---|---|",
    ]
    for task, one in sorted(scores.items()):
        cells = [task, *(_estimate(one.get(name)) for name in ("model", "random", "difference"))]
        cells += [_listed(one.get(name)) for name in ("rates", "epochs")]
        lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    return lines


def _estimate(one: Mapping[str, Any] | None) -> str:
    """A mean with its interval, seeds and best setting, as far as they are known."""
    if not one or one.get("mean") is None:
        return MISSING
    said = _number(one["mean"])
    if one.get("low") is not None and one.get("high") is not None:
        said += f" ({_number(one['low'])} to {_number(one['high'])})"
    if one.get("n") is not None:
        said += f", {one['n']} seeds"
    best = one.get("best")
    if isinstance(best, Mapping):
        best = ", ".join(f"{name} {value}" for name, value in sorted(best.items()))
    return said if best is None else f"{said}, best at {best}"


def _held_out(one: Mapping[str, Any] | None, objective: str) -> str:
    if not one or one.get("accuracy") is None:
        return MISSING
    said = f"{one['accuracy']:.1%} of {_ASKED[objective]}"
    if one.get("interval"):
        low, high = one["interval"]
        said += f" ({low:.1%} to {high:.1%})"
    if one.get("n") is not None:
        said += f", n = {_count(one['n'])}"
    unigram = one.get("unigram")
    return f"{said}; most frequent token: {MISSING if unigram is None else f'{unigram:.1%}'}"


def _design(given: Design | Mapping[str, Any]) -> Design:
    if isinstance(given, Design):
        return given
    told = dict(given)
    name = told.pop("name", None)
    if name not in DESIGNS:
        raise unknown("design", name, DESIGNS)
    pairs = {key: tuple(value) if isinstance(value, list) else value for key, value in told.items()}
    return find_design(name, **pairs)


def _only(what: str, given: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    for name in given:
        if name not in known:
            raise unknown(f"a fact of {what}", name, known)
    return dict(given)


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"{file} must be a readable file, but got: {error}.") from error


def _count(value: int | None) -> str:
    return MISSING if value is None else f"{value:,}"


def _number(value: float | None) -> str:
    return MISSING if value is None else f"{value:.3f}"


def _listed(values: Any) -> str:
    return ", ".join(f"{value:g}" for value in values) if values else MISSING


def _cell(text: str) -> str:
    """Keep a bar from ending the cell."""
    return text.replace("|", "\\|").replace("\n", " ")
