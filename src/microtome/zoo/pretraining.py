"""How is a small encoder made? One loop over one text, which can be stopped anywhere and taken up again."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, must
from ..randomness import generator, repeatable
from ..store.address import address
from ..training.progress import LOG, Log, read_state, write_state
from ..training.replay import Replay
from .designs import Design
from .objectives import Learner
from .saving import save_encoder
from .text import CLS, SEP, Text

if TYPE_CHECKING:
    import torch

RUN = "pretraining.json"
LOG_STEPS = 50
STATE_SECONDS = 60.0
# Cross-entropy of guessing by word frequencies alone: where runs that failed stay.
PLATEAU = 5.6
_SAME = "a run of the same design, text and seed"

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pretrained:
    """
    A run of pretraining.

    Parameters
    ----------
    folder : Path
        The encoder, as `load` and stock transformers read it.
    design : Design
    seed : int
    losses : tuple of (int, float)
        Mean loss since the line before, at some updates.
    tokens : int
        How many were read.
    seconds : float
    failure : str, optional
        Why it must not be used.
    checkpoints : tuple of Path
        Those kept along the way, in their order.
    """

    folder: Path
    design: Design
    seed: int
    losses: tuple[tuple[int, float], ...]
    tokens: int
    seconds: float
    failure: str | None = None
    checkpoints: tuple[Path, ...] = ()


def pretrain(
    design: Design,
    text: Text,
    folder: str | Path,
    *,
    seed: int = 0,
    device: str = "cpu",
    compiled: bool | None = None,
    checkpoints: Iterable[int] = (),
    progress: Progress | None = None,
    command: str = "",
    state_seconds: float = STATE_SECONDS,
    stop_after: int | None = None,
) -> Pretrained:
    """
    Pretrain a small encoder.

    Same design, text, seed and device: the same order of sequences and the same draws. A run that was
    stopped goes on where it was.

    Parameters
    ----------
    design : Design
    text : Text
    folder : path
        Where the encoder goes.
    seed : int
        Of the weights, the order and what is hidden.
    device : {"cpu", "cuda"}
        On a GPU products are done in bfloat16, weights and sums stay in float32.
    compiled : bool, optional
        Whether the model is compiled; on a GPU when absent.
    checkpoints : iterable of int
        Also keep the encoder after these updates, in `step-N` below the folder.
    progress : callable, optional
        Called with what is done, how much of it, and of how much.
    command : str
        What a user types to do it again.
    state_seconds : float
        How often the state is kept.
    stop_after : int, optional
        Leave after so many updates as if the run had been stopped.

    Returns
    -------
    Pretrained
    """
    import torch

    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    asked = {"design": design.specification(), "text": text.digest, "seed": seed, "device": device}
    _check_place(place, address(asked))
    if device not in ("cpu", "cuda"):
        raise must("device", "'cpu' or 'cuda'", device)
    inside = design.length - 2
    if len(text.train) <= inside:
        raise must("the text", f"longer than {inside} tokens", len(text.train))
    kept = frozenset(checkpoints)
    if kept and not 0 < min(kept) <= max(kept) <= design.steps:
        raise must("checkpoints", f"updates between 1 and {design.steps}", sorted(kept)[-1])
    entries = len(json.loads(text.tokenizer)["model"]["vocab"])
    with repeatable(device):
        learner = Learner(design, entries, seed=seed).to(device)
        optimizer = _optimizer(learner, design, device)
        done, adding = read_state(place, learner, optimizer)
        log = Log(place / LOG, done)
        losses = [(line["update"], line["loss"]) for line in log.lines if line.get("loss") is not None]
        recent = adding.get("sum", torch.zeros(2)).to(device)
        since = int(adding.get("count", 0))
        if device == "cuda" if compiled is None else compiled:
            learner.hasten()
        tokens = torch.from_numpy(text.train.astype(np.int32)).to(device)
        learn = _learning(learner, design, device)
        start = saved = time.monotonic()
        failure = None
        for step in range(done, design.steps if stop_after is None else min(stop_after, design.steps)):
            for group in optimizer.param_groups:
                group["lr"] = design.rate * scheduled(step, design)
            torch.manual_seed(int(generator(seed, "zoo", "step", step).integers(2**62)))
            batch = sequences(tokens, _starts(len(text.train), design, seed, step), inside)
            recent += learn(batch)
            optimizer.step()
            since += 1
            done = step + 1
            last = done == design.steps
            if done % LOG_STEPS == 0 or last:
                mean, shown = (recent / since).tolist()
                recent.zero_()
                since = 0
                losses.append((done, shown))
                log.add(update=done, loss=shown, learned=mean, seconds=round(time.monotonic() - start, 3))
                if not math.isfinite(mean):
                    failure = f"the loss was no number at update {done} of {design.steps}"
                    break
                if progress is not None:
                    progress(f"{design.name}, loss {shown:.3f}", done, design.steps)
            if done in kept:
                save_encoder(learner, text.tokenizer, place / f"step-{done}")
            if last or time.monotonic() - saved >= state_seconds:
                write_state(place, learner, optimizer, done, {"sum": recent, "count": torch.tensor(since)})
                saved = time.monotonic()
        log.close()
    seconds = time.monotonic() - start
    failure = failure or _failure(design, losses, done)
    if done == design.steps:
        save_encoder(learner, text.tokenizer, place)
    told = {
        "address": address(asked),
        **asked,
        "losses": losses,
        "updates": done,
        "tokens": done * design.batch * inside,
        "seconds": round(seconds, 1),
        "failure": failure,
        "command": command,
        "torch": torch.__version__,
    }
    (place / RUN).write_text(json.dumps(told, indent=1))
    return Pretrained(
        folder=place,
        design=design,
        seed=seed,
        losses=tuple(losses),
        tokens=told["tokens"],
        seconds=seconds,
        failure=failure,
        checkpoints=tuple(place / f"step-{step}" for step in sorted(kept) if step <= done),
    )


def _learning(learner: Learner, design: Design, device: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """Say how a batch leaves its gradient in the weights; two numbers: the loss, and what is shown of it."""
    import torch

    def told(batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        # Weights that were cast for one update must not be taken for the next one's.
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda", cache_enabled=False):
            return torch.stack(learner(batch["ids"]))

    weights = list(learner.parameters())
    if device == "cuda":
        recorded = Replay(told, weights, design.clip)
        return lambda batch: recorded({"ids": batch})

    def learn(batch: torch.Tensor) -> torch.Tensor:
        for weight in weights:
            weight.grad = None
        found = told({"ids": batch})
        found[0].backward()
        torch.nn.utils.clip_grad_norm_(weights, design.clip)
        return found.detach()

    return learn


def scheduled(step: int, design: Design) -> float:
    """Share of the peak rate at an update: linear up, then linear down to 0."""
    rise = max(1, round(design.warmup * design.steps))
    if step < rise:
        return (step + 1) / rise
    return max(0.0, (design.steps - step) / max(1, design.steps - rise))


def sequences(tokens: torch.Tensor, starts: torch.Tensor, inside: int) -> torch.Tensor:
    """
    Cut sequences out of a text.

    Parameters
    ----------
    tokens : Tensor of shape (tokens,)
    starts : Tensor of shape (sequences,)
    inside : int
        Tokens between the two ends.

    Returns
    -------
    Tensor of int64 of shape (sequences, inside + 2)
        [CLS] in front, [SEP] at the end.
    """
    import torch

    places = starts.to(tokens.device)[:, None] + torch.arange(inside, device=tokens.device)
    found = tokens[places].long()
    first, last = torch.full_like(found[:, :1], CLS), torch.full_like(found[:, :1], SEP)
    return torch.cat([first, found, last], dim=1)


def _starts(length: int, design: Design, seed: int, step: int) -> torch.Tensor:
    """Where the sequences of an update begin: passes over the text, each shifted and shuffled anew."""
    import torch

    inside = design.length - 2
    found = np.empty(0, dtype=np.int64)
    while len(found) < design.batch:
        epoch, place = divmod(step * design.batch + len(found), (length - inside) // inside)
        one = _one_pass(length, inside, seed, epoch)[place:]
        found = np.concatenate([found, one])[: design.batch]
    return torch.from_numpy(found)


@lru_cache(maxsize=2)
def _one_pass(length: int, inside: int, seed: int, epoch: int) -> np.ndarray:
    draw = generator(seed, "zoo", "pass", epoch)
    shift = int(draw.integers(inside))
    return draw.permutation((length - inside) // inside) * inside + shift


def _optimizer(learner: torch.nn.Module, design: Design, device: str) -> Any:
    import torch

    decayed = [p for p in learner.parameters() if p.ndim > 1]
    plain = [p for p in learner.parameters() if p.ndim <= 1]
    return torch.optim.AdamW(
        [{"params": decayed, "weight_decay": design.decay}, {"params": plain, "weight_decay": 0.0}],
        lr=design.rate,
        betas=design.betas,
        eps=design.eps,
        fused=device == "cuda",
    )


def _failure(design: Design, losses: list[tuple[int, float]], done: int) -> str | None:
    if done < design.steps:
        return f"stopped after {done} of {design.steps} updates"
    if design.objective in ("masked", "every", "causal") and losses[-1][1] > PLATEAU:
        return f"still on the plateau of word frequencies: loss {losses[-1][1]:.2f}"
    return None


def _check_place(place: Path, wanted: str) -> None:
    known = place / RUN
    marker = place / "asked"
    if known.is_file() and json.loads(known.read_text())["address"] != wanted:
        raise InputError(f"{place} must be empty or hold {_SAME}, but it does not.")
    if marker.is_file() and marker.read_text() != wanted:
        raise InputError(f"{place} must be empty or hold {_SAME}, but it does not.")
    marker.write_text(wanted)
