"""How well does a small encoder guess? Tokens that nobody trained on, beside the most frequent one."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, must
from ..randomness import generator
from .objectives import hide
from .pretraining import sequences
from .text import PAD, Text

LENGTH = 128
SHARE = 0.15
BATCH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Guessing:
    """
    Guesses of held-out tokens.

    Parameters
    ----------
    what : {"hidden tokens", "next tokens"}
    accuracy : float
        Share of guesses whose first choice is right.
    low, high : float
        Of the accuracy, 95 %, sequences taken as independent.
    loss : float
        Mean cross-entropy.
    unigram : float
        Accuracy of always guessing the most frequent token of the training text.
    n, sequences : int
        Guesses, and sequences that they are in.
    """

    what: str
    accuracy: float
    low: float
    high: float
    loss: float
    unigram: float
    n: int
    sequences: int

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def judge_guesses(
    folder: str | Path, text: Text, *, seed: int = 0, device: str = "cpu", limit: int | None = None
) -> Guessing:
    """
    Let a model guess held-out tokens with the head of its own pretraining.

    Parameters
    ----------
    folder : path
        A masked or a causal language model, as `pretrain` saves it.
    text : Text
        The text that it was trained on, with what was held out, in tokens of the model's own tokenizer.
    seed : int
        Of what is hidden.
    device : str
    limit : int, optional
        Sequences at most.

    Returns
    -------
    Guessing
    """
    import torch

    model, causal = _opened(Path(folder))
    model = model.float().to(device).eval()
    if model.config.vocab_size <= int(text.held_out.max()):
        raise must("the text", f"cut into the {model.config.vocab_size:,} tokens of the model", "others")
    # RoBERTa counts positions from behind the padding token's number.
    length = min(LENGTH, model.config.max_position_embeddings - PAD - 1)
    inside = length - 2
    count = len(text.held_out) // inside
    if not count:
        raise must("the held-out text", f"longer than {inside} tokens", len(text.held_out))
    tokens = torch.from_numpy(text.held_out.astype(np.int64))
    starts = torch.arange(count if limit is None else min(limit, count)) * inside
    common = int(np.bincount(text.train).argmax())
    rights, losses, commons = [], [], []
    for first in range(0, len(starts), BATCH):
        torch.manual_seed(int(generator(seed, "zoo", "judge", first).integers(2**62)))
        ids = sequences(tokens, starts[first : first + BATCH], inside)
        places, hidden = hide(ids, max(1, round(SHARE * inside)))
        with torch.inference_mode():
            logits = model(input_ids=(ids if causal else hidden).to(device)).logits.float().cpu()
        if causal:
            # [SEP] at the end is not part of the text.
            logits, wanted = logits[:, :-2], ids[:, 1:-1]
        else:
            wanted = ids.gather(1, places)
            logits = logits.gather(1, places[..., None].expand(-1, -1, logits.shape[-1]))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="none")
        rights.append((logits.argmax(-1) == wanted).double().mean(1))
        losses.append(loss.view_as(wanted).double().mean(1))
        commons.append((wanted == common).double().mean(1))
    right, lost, often = (torch.cat(each).numpy() for each in (rights, losses, commons))
    # Each sequence has as many guesses, so that the mean of means is the mean.
    spread = 1.96 * right.std(ddof=1) / math.sqrt(len(right)) if len(right) > 1 else math.nan
    return Guessing(
        what="next tokens" if causal else "hidden tokens",
        accuracy=float(right.mean()),
        low=float(right.mean() - spread),
        high=float(right.mean() + spread),
        loss=float(lost.mean()),
        unigram=float(often.mean()),
        n=len(right) * (inside if causal else max(1, round(SHARE * inside))),
        sequences=len(right),
    )


def _opened(folder: Path) -> tuple[Any, bool]:
    import transformers

    from ..encoders.telling import quiet

    with quiet():
        config = transformers.AutoConfig.from_pretrained(folder)
        kind = (config.architectures or [""])[0]
        if kind.endswith("ForMaskedLM"):
            return transformers.AutoModelForMaskedLM.from_pretrained(folder), False
        if kind.endswith("ForCausalLM"):
            return transformers.AutoModelForCausalLM.from_pretrained(folder), True
    raise InputError(
        f"{folder} must hold a language model to guess tokens, but it is a {kind or 'bare model'}."
    )
