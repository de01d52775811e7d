"""Tiny encoders in the place of those that come with the package: drawn weights, the real tokenizer.

They know which words praise and which blame, as a pretrained encoder would; so they learn from few examples.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import microtome.zoo

# As few blocks as are needed to look for two groups of them.
SHAPE = {"layers": 6, "width": 32, "heads": 2, "inner": 64, "length": 48, "generator": (1, 32)}
KNOWN = 0.15  # how far apart words of praise and of blame are drawn; others have a spread of 0.02


def draw_zoo(place: Path, names: Iterable[str] = ("masked", "replaced", "every")) -> Path:
    """Write encoders into a folder that MICROTOME_ZOO can name."""
    from microtome.zoo.designs import find_design
    from microtome.zoo.objectives import Learner
    from microtome.zoo.shipped import save_encoder

    tokenizer = (Path(microtome.zoo.__file__).parent / "tokenizer.json").read_text(encoding="utf-8")
    entries = len(json.loads(tokenizer)["model"]["vocab"])
    # Untrained, some designs are the same model: seeds tell them apart.
    for seed, name in enumerate(names):
        design = find_design(name, **SHAPE)
        learner = Learner(design, entries, seed=seed)
        _teach(learner.net, tokenizer)
        save_encoder(learner, tokenizer, place / name)
        write_card(place / name, title=design.title, objective=design.objective, seed=seed)
    return place


def write_card(folder: Path, **facts: Any) -> None:
    """Write a card with what `ls zoo` lists; what is not given was not measured."""
    from microtome.encoders.locations import WEIGHTS, weights_digest
    from microtome.zoo.shipped import CARD, FORMAT, LISTED

    size = (folder / WEIGHTS).stat().st_size
    card = {"format": FORMAT, **dict.fromkeys(LISTED), "sha256": weights_digest(folder), "bytes": size}
    card |= {"name": folder.name, "parameters": size // 2, "scores": {}, **facts}
    (folder / CARD).write_text(json.dumps(card))


def _teach(net: Any, tokenizer: str) -> None:
    import tokenizers
    import torch

    from microtome.tasks.generated.grammar import vocabulary
    from microtome.tasks.generated.polarity import POLARITY

    cut = tokenizers.Tokenizer.from_str(tokenizer)
    words = vocabulary(POLARITY, held_out=False)
    pieces: list[set[int]] = [set(), set()]
    for kinds in (
        (words.blame, words.praise),
        (words.disliked, words.liked),
        (words.displeased, words.pleased),
    ):
        for kind, found in enumerate(kinds):
            for word in found:
                pieces[kind] |= set(cut.encode(word, add_special_tokens=False).ids)
    weight = net.get_input_embeddings().weight
    with torch.no_grad():
        for kind, sign in enumerate((-KNOWN, KNOWN)):
            only = sorted(pieces[kind] - pieces[1 - kind])
            weight[only, : weight.shape[1] // 2] += sign
            weight[only, weight.shape[1] // 2 :] -= sign
