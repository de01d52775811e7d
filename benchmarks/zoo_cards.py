"""Model cards of the small encoders."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from microtome.encoders.locations import WEIGHTS, weights_digest
from microtome.errors import InputError, unknown
from microtome.rounding import at_least, at_most
from microtome.zoo.designs import DESIGNS, Design, find_design
from microtome.zoo.shipped import CARD, FORMAT, read_card
from microtome.zoo.text import TOKENIZER

README = "README.md"
MISSING = "not measured"
# What the accuracy on held-out text counts, by objective.
_ASKED = {
    "masked": "hidden tokens guessed",
    "every": "hidden tokens guessed",
    "replaced": "tokens told rightly",
    "causal": "next tokens guessed",
}
_CORPUS = ("name", "license", "digest")
_HELD_OUT = ("accuracy", "n", "interval", "unigram")
_COMPARED = ("rates", "epochs", "model", "random", "difference")


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFacts:
    """
    What a card tells of an encoder beside design and seed.

    Parameters
    ----------
    license : str, optional
        The license of the weights, as the hub names licenses.
    corpus : mapping, optional
        `name`, `license` and `digest` of the training text.
    steps, tokens : int, optional
        Updates, by default those of the design, and tokens read in them.
    loss : float, optional
        The final loss.
    seconds : float, optional
    device, torch : str, optional
        The device and the version of torch of the pretraining.
    command : str, optional
        The command that reproduces it.
    held_out : mapping, optional
        On held-out text: `accuracy` of the predictions, of masked tokens or according to the objective, `n`
        of them, `interval`, and `unigram`, the accuracy of always predicting the most frequent token.
    scores : mapping of str to mapping, optional
        By task: `rates` and `epochs` that were tried; `model`, `random` and `difference`, each with `mean`,
        `low`, `high`, `n` and `best`.
    """

    license: str | None = None
    corpus: Mapping[str, Any] | None = None
    steps: int | None = None
    tokens: int | None = None
    loss: float | None = None
    seconds: float | None = None
    device: str | None = None
    torch: str | None = None
    command: str | None = None
    held_out: Mapping[str, Any] | None = None
    scores: Mapping[str, Mapping[str, Any]] | None = None


FACTS = tuple(fact.name for fact in fields(CardFacts))


def write_card(
    folder: str | Path,
    *,
    design: Design | Mapping[str, Any],
    seed: int,
    **facts: Any,
) -> dict[str, Any]:
    """
    Write the card of an encoder into its folder: `card.json`, and `README.md` generated from it.

    Hashes, size and number of parameters are read from the files.

    Parameters
    ----------
    folder : path
        A folder with `model.safetensors` and `tokenizer.json`; its name is that of the encoder.
    design : Design or mapping
        A design or its specification.
    seed : int
        The seed of the pretraining.
    **facts
        Of `CardFacts`.

    Returns
    -------
    dict
        The content of `card.json`.
    """
    path, card_facts = Path(folder), CardFacts(**_only("a card", facts, FACTS))
    resolved = _design(design)
    card = {
        "format": FORMAT,
        "name": path.resolve().name,
        "title": resolved.title,
        "objective": resolved.objective,
        "differs": resolved.differs,
        "design": resolved.specification(),
        "seed": seed,
        "license": card_facts.license,
        "corpus": None if card_facts.corpus is None else _only("a corpus", card_facts.corpus, _CORPUS),
        "tokenizer": {"sha256": _digest(path / TOKENIZER)},
        "steps": resolved.steps if card_facts.steps is None else card_facts.steps,
        "tokens": card_facts.tokens,
        "loss": card_facts.loss,
        "seconds": card_facts.seconds,
        "device": card_facts.device,
        "torch": card_facts.torch,
        "command": card_facts.command,
        "sha256": weights_digest(path),
        "bytes": (path / WEIGHTS).stat().st_size,
        "parameters": count_parameters(path / WEIGHTS),
        "held_out": None
        if card_facts.held_out is None
        else _only("held_out", card_facts.held_out, _HELD_OUT),
        "scores": {
            task: _only(f"scores of {task}", comparison, _COMPARED)
            for task, comparison in (card_facts.scores or {}).items()
        },
    }
    try:
        written = json.dumps(card, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"facts of a card must be plain data and finite numbers, but got: {error}."
        ) from error
    (path / CARD).write_text(f"{written}\n", encoding="utf-8")
    # As it will be read: tuples have become lists.
    card = json.loads(written)
    (path / README).write_text(readme(card), encoding="utf-8")
    return card


def check_card(folder: str | Path) -> dict[str, Any]:
    """
    Verify that the weights and tokenizer in a folder are those of its card.

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
        If a file differs.
    """
    path, card = Path(folder), read_card(folder)
    digests = {WEIGHTS: weights_digest(path), TOKENIZER: _digest(path / TOKENIZER)}
    expected = {WEIGHTS: card["sha256"], TOKENIZER: card["tokenizer"]["sha256"]}
    for name, digest in digests.items():
        if digest != expected[name]:
            raise InputError(
                f"{path / name} must have the SHA-256 {expected[name]} of its card, but it has {digest}."
            )
    return card


def count_parameters(file: Path) -> int:
    """Count the parameters in a file of weights from its header."""
    try:
        with file.open("rb") as opened:
            (size,) = struct.unpack("<Q", opened.read(8))
            header = json.loads(opened.read(size))
        shapes = [tensor["shape"] for name, tensor in header.items() if name != "__metadata__"]
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
    """Render a card as a model card for the hub."""
    design, corpus = card["design"], card["corpus"] or {}
    license = card["license"]
    # The hub requires a license; an unknown one is "other".
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
        "Made on": ", torch ".join(fact for fact in (card["device"], card["torch"]) if fact) or MISSING,
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
        "Beside a randomly initialized copy of the same shape, both tuned over the same learning rates and "
        "lengths of training; intervals over seeds.",
        "",
        "| task | encoder | random baseline | difference | rates tried | epochs tried |",
        "|---|---|---|---|---|---|",
    ]
    for task, comparison in sorted(scores.items()):
        cells = [task, *(_estimate(comparison.get(name)) for name in ("model", "random", "difference"))]
        cells += [_listed(comparison.get(name)) for name in ("rates", "epochs")]
        lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    return lines


def _estimate(estimate: Mapping[str, Any] | None) -> str:
    """Format a mean with its interval, seeds and best setting, where they are available."""
    if not estimate or estimate.get("mean") is None:
        return MISSING
    text = _number(estimate["mean"])
    if estimate.get("low") is not None and estimate.get("high") is not None:
        text += f" ({_number(estimate['low'])} to {_number(estimate['high'])})"
    if estimate.get("n") is not None:
        text += f", {estimate['n']} seeds"
    best = estimate.get("best")
    if isinstance(best, Mapping):
        best = ", ".join(f"{name} {value}" for name, value in sorted(best.items()))
    return text if best is None else f"{text}, best at {best}"


def _held_out(measured: Mapping[str, Any] | None, objective: str) -> str:
    if not measured or measured.get("accuracy") is None:
        return MISSING
    text = f"{100 * measured['accuracy']:.1f} % of {_ASKED[objective]}"
    if measured.get("interval"):
        low, high = measured["interval"]
        text += f" ({at_least(100 * low, 1)} % to {at_most(100 * high, 1)} %)"
    if measured.get("n") is not None:
        text += f", n = {_count(measured['n'])}"
    unigram = measured.get("unigram")
    return f"{text}; most frequent token: {MISSING if unigram is None else f'{100 * unigram:.1f} %'}"


def _design(design: Design | Mapping[str, Any]) -> Design:
    if isinstance(design, Design):
        return design
    values = dict(design)
    name = values.pop("name", None)
    if name not in DESIGNS:
        raise unknown("design", name, DESIGNS)
    pairs = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    return find_design(name, **pairs)


def _only(what: str, facts: Mapping[str, Any], allowed: tuple[str, ...]) -> dict[str, Any]:
    for name in facts:
        if name not in allowed:
            raise unknown(f"a fact of {what}", name, allowed)
    return dict(facts)


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
    """Escape bars and line breaks in a table cell."""
    return text.replace("|", "\\|").replace("\n", " ")
