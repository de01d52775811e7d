"""Evaluation of language models on held-out tokens, against the unigram baseline."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from microtome.errors import InputError, must
from microtome.randomness import generator
from microtome.zoo.objectives import hide
from microtome.zoo.pretraining import sequences
from microtome.zoo.text import PAD, Text

LENGTH = 128
SHARE = 0.15
BATCH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Guessing:
    """
    Accuracy and loss of predictions of held-out tokens.

    Parameters
    ----------
    what : {"hidden tokens", "next tokens"}
    accuracy : float
        Top-1 accuracy.
    low, high : float
        Ends of the 95 % interval of the accuracy, with sequences as independent units.
    loss : float
        Mean cross-entropy.
    unigram : float
        Accuracy of always predicting the most frequent token of the training text.
    n, sequences : int
        Number of predictions, and of their sequences.
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
        """Return the fields as plain data."""
        return asdict(self)


def judge_guesses(
    folder: str | Path, text: Text, *, seed: int = 0, device: str = "cpu", limit: int | None = None
) -> Guessing:
    """
    Evaluate the predictions of held-out tokens by a model with its pretraining head.

    Parameters
    ----------
    folder : path
        A masked or a causal language model, as `pretrain` saves it.
    text : Text
        The training text with its held-out part, in tokens of the model's own tokenizer.
    seed : int
        The seed of the masking.
    device : str
    limit : int, optional
        The maximal number of sequences.

    Returns
    -------
    Guessing
    """
    import torch

    model, causal = _opened(Path(folder))
    model = model.float().to(device).eval()
    if model.config.vocab_size <= int(text.held_out.max()):
        raise must("the text", f"cut into the {model.config.vocab_size:,} tokens of the model", "others")
    # RoBERTa counts positions from after the id of the padding token.
    length = min(LENGTH, model.config.max_position_embeddings - PAD - 1)
    inside = length - 2
    count = len(text.held_out) // inside
    if not count:
        raise must("the held-out text", f"longer than {inside} tokens", len(text.held_out))
    tokens = torch.from_numpy(text.held_out.astype(np.int64))
    starts = torch.arange(count if limit is None else min(limit, count)) * inside
    common = int(np.bincount(text.train).argmax())
    accuracy_parts, loss_parts, unigram_parts = [], [], []
    for first in range(0, len(starts), BATCH):
        torch.manual_seed(int(generator(seed, "zoo", "judge", first).integers(2**62)))
        ids = sequences(tokens, starts[first : first + BATCH], inside)
        positions, hidden = hide(ids, max(1, round(SHARE * inside)))
        with torch.inference_mode():
            logits = model(input_ids=(ids if causal else hidden).to(device)).logits.float().cpu()
        if causal:
            # [SEP] at the end is not part of the text.
            logits, targets = logits[:, :-2], ids[:, 1:-1]
        else:
            targets = ids.gather(1, positions)
            logits = logits.gather(1, positions[..., None].expand(-1, -1, logits.shape[-1]))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
        accuracy_parts.append((logits.argmax(-1) == targets).double().mean(1))
        loss_parts.append(loss.view_as(targets).double().mean(1))
        unigram_parts.append((targets == common).double().mean(1))
    accuracies, mean_losses, unigram_hits = (
        torch.cat(parts).numpy() for parts in (accuracy_parts, loss_parts, unigram_parts)
    )
    # Each sequence has the same number of predictions, so that the mean of means is the mean.
    spread = 1.96 * accuracies.std(ddof=1) / math.sqrt(len(accuracies)) if len(accuracies) > 1 else math.nan
    return Guessing(
        what="next tokens" if causal else "hidden tokens",
        accuracy=float(accuracies.mean()),
        low=float(accuracies.mean() - spread),
        high=float(accuracies.mean() + spread),
        loss=float(mean_losses.mean()),
        unigram=float(unigram_hits.mean()),
        n=len(accuracies) * (inside if causal else max(1, round(SHARE * inside))),
        sequences=len(accuracies),
    )


def _opened(folder: Path) -> tuple[Any, bool]:
    import transformers

    from microtome.encoders.library import quiet

    with quiet():
        config = transformers.AutoConfig.from_pretrained(folder)
        architecture = (config.architectures or [""])[0]
        if architecture.endswith("ForMaskedLM"):
            return transformers.AutoModelForMaskedLM.from_pretrained(folder), False
        if architecture.endswith("ForCausalLM"):
            return transformers.AutoModelForCausalLM.from_pretrained(folder), True
    raise InputError(
        f"{folder} must hold a language model to guess tokens, but it is a {architecture or 'bare model'}."
    )
