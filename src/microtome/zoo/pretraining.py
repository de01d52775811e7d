"""Resumable pretraining of the small encoders."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..context import Context
from ..encoders.versions import provenance
from ..errors import InputError, must
from ..findings.record import make_folder, replace_file
from ..findings.results import plain
from ..lazy import torch
from ..randomness import generator, repeatable
from ..store.address import address, is_address
from ..store.outfolder import RESULT, check_foreign
from ..training.optimization.cuda_graphs import CudaGraphs
from ..training.optimization.progress import LOG, Log, read_state, write_state
from ..training.optimization.stopping import Stopping
from .designs import Design
from .objectives import Learner
from .saving import save_encoder
from .text import Text
from .wordpiece import CLS, SEP

RUN, ASKED = "pretraining.json", "asked"
LOG_STEPS = 50
STATE_SECONDS = 60.0
# Cross-entropy of a unigram model: the plateau of failed runs.
PLATEAU = 5.6
_SAME = "a run of the same design, text and seed"


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
        Mean loss since the previous entry, at some updates.
    tokens : int
        The number of tokens read.
    seconds : float
    failure : str, optional
        The reason why the run must not be used.
    checkpoints : tuple of Path
        The intermediate checkpoints, in order.
    text : str
        The digest of the tokenized text.
    context : Context
        Device and command.
    """

    kind: ClassVar[str] = "pretrain"
    folder: Path
    design: Design
    seed: int
    losses: tuple[tuple[int, float], ...]
    tokens: int
    seconds: float
    failure: str | None = None
    checkpoints: tuple[Path, ...] = ()
    text: str = ""
    context: Context = field(default_factory=Context, repr=False, compare=False)

    @property
    def findings(self) -> tuple[str, ...]:
        """One sentence with the last loss, and why the run failed."""
        loss = f"loss {self.losses[-1][1]:.3f}" if self.losses else "no loss"
        tokens = f"{self.tokens / 1e6:,.1f} million" if self.tokens >= 1e6 else f"{self.tokens:,}"
        sentence = f"{self.folder}: {loss} after {tokens} tokens, {self.seconds:.0f} s."
        return (sentence if self.failure is None else f"{sentence} It failed: {self.failure}.",)

    @property
    def methods(self) -> str:
        """A paragraph for a paper."""
        design = self.design
        return (
            f"An encoder with {design.layers} layers of width {design.width} was pretrained ({design.title}) "
            f"for {design.steps:,} updates of {design.batch} sequences of {design.length} tokens."
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why the run must not be used."""
        return () if self.failure is None else (self.failure,)

    @property
    def provenance(self) -> Mapping[str, Any]:
        """What it takes to reproduce the run."""
        return provenance(
            {
                "seed": self.seed,
                "text": self.text,
                "device": self.context.device,
                "seconds": round(self.seconds, 3),
                "command": self.context.command,
            }
        )

    def document(self) -> dict[str, Any]:
        """Plain data of the format microtome/pretrain/1."""
        return plain(
            {
                "format": f"microtome/{self.kind}/1",
                "folder": str(self.folder),
                "design": self.design.specification(),
                "seed": self.seed,
                "text": self.text,
                "losses": self.losses,
                "tokens": self.tokens,
                "seconds": self.seconds,
                "failure": self.failure,
                "checkpoints": [str(checkpoint) for checkpoint in self.checkpoints],
                "findings": self.findings,
                "methods": self.methods,
                "warnings": self.warnings,
                "provenance": self.provenance,
            }
        )

    def save(self, folder: str | os.PathLike[str] | None = None) -> tuple[Path, ...]:
        """
        Write `result.json`, beside the encoder where no folder is given.

        Parameters
        ----------
        folder : path, optional

        Returns
        -------
        tuple of Path
        """
        path = self.folder if folder is None else make_folder(folder)
        content = json.dumps(self.document(), indent=1, allow_nan=False).encode() + b"\n"
        replace_file(path / RESULT, content)
        return (path / RESULT,)


def pretrain(
    design: Design,
    text: Text,
    folder: str | Path,
    *,
    seed: int = 0,
    compiled: bool | None = None,
    checkpoints: Iterable[int] = (),
    context: Context | None = None,
    state_seconds: float = STATE_SECONDS,
    stop_after: int | None = None,
) -> Pretrained:
    """
    Pretrain a small encoder.

    The same design, text, seed and device give the same order of sequences and the same random numbers. An
    interrupted run is resumed.

    Parameters
    ----------
    design : Design
    text : Text
    folder : path
        The output folder of the encoder.
    seed : int
        The seed of the weights, the order and the masking.
    compiled : bool, optional
        Whether the model is compiled; by default only on a GPU.
    checkpoints : iterable of int
        Updates after which the encoder is also saved, in `step-N` below the folder.
    context : Context, optional
        On a GPU, matrix products are computed in bfloat16; weights and sums stay in float32.
    state_seconds : float
        The interval between saved states.
    stop_after : int, optional
        Return after so many updates as if the run had been interrupted.

    Returns
    -------
    Pretrained
    """
    context = (context or Context()).resolved()
    path, device = Path(folder), context.device
    path.mkdir(parents=True, exist_ok=True)
    specification = {"design": design.specification(), "text": text.digest, "seed": seed, "device": device}
    _check_place(path, address(specification))
    if device not in ("cpu", "cuda"):
        raise must("device", "'cpu' or 'cuda'", device)
    inside = design.length - 2
    if len(text.train) <= inside:
        raise must("the text", f"longer than {inside} tokens", len(text.train))
    kept_steps = check_checkpoints(design, checkpoints)
    entries = len(json.loads(text.tokenizer)["model"]["vocab"])
    with repeatable(device):
        learner = Learner(design, entries, seed=seed).to(device)
        optimizer = _optimizer(learner, design, device)
        done, accumulated = read_state(path, learner, optimizer)
        log = Log(path / LOG, done)
        losses = [(line["update"], line["loss"]) for line in log.lines if line.get("loss") is not None]
        recent = accumulated.get("sum", torch.zeros(2)).to(device)
        since = int(accumulated.get("count", 0))
        if device == "cuda" if compiled is None else compiled:
            learner.hasten()
        tokens = torch.from_numpy(text.train.astype(np.int32)).to(device)
        learn = _learning(learner, design, device)
        start = saved = time.monotonic()
        failure = None
        with Stopping() as stopping:
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
                    mean, reported = (recent / since).tolist()
                    recent.zero_()
                    since = 0
                    losses.append((done, reported))
                    log.add(
                        update=done, loss=reported, learned=mean, seconds=round(time.monotonic() - start, 3)
                    )
                    if not math.isfinite(mean):
                        failure = f"the loss was no number at update {done} of {design.steps}"
                        break
                    if context.progress is not None:
                        context.progress(f"{design.name}, loss {reported:.3f}", done, design.steps)
                if done in kept_steps:
                    save_encoder(learner, text.tokenizer, path / f"step-{done}")
                if last or stopping.asked or time.monotonic() - saved >= state_seconds:
                    write_state(path, learner, optimizer, done, {"sum": recent, "count": torch.tensor(since)})
                    saved = time.monotonic()
                if stopping.asked:
                    log.close()
                    break
        log.close()
    seconds = time.monotonic() - start
    failure = failure or _failure(design, losses, done)
    if done == design.steps:
        save_encoder(learner, text.tokenizer, path)
    record = {
        "address": address(specification),
        **specification,
        "losses": losses,
        "updates": done,
        "tokens": done * design.batch * inside,
        "seconds": round(seconds, 1),
        "failure": failure,
        "command": context.command,
        "torch": torch.__version__,
    }
    (path / RUN).write_text(json.dumps(record, indent=1))
    return Pretrained(
        folder=path,
        design=design,
        seed=seed,
        losses=tuple(losses),
        tokens=record["tokens"],
        seconds=seconds,
        failure=failure,
        checkpoints=tuple(path / f"step-{step}" for step in sorted(kept_steps) if step <= done),
        text=text.digest,
        context=replace(context, progress=None),
    )


def _learning(learner: Learner, design: Design, device: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the function that computes gradients of a batch and returns its training and reported losses."""

    def losses_of(batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        # Weights that were cast for one update must not be reused for the next.
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda", cache_enabled=False):
            return torch.stack(learner(batch["ids"]))

    weights = list(learner.parameters())
    if device == "cuda":
        graph = CudaGraphs(losses_of, weights, design.clip)
        return lambda batch: graph({"ids": batch})

    def learn(batch: torch.Tensor) -> torch.Tensor:
        for weight in weights:
            weight.grad = None
        losses = losses_of({"ids": batch})
        losses[0].backward()
        torch.nn.utils.clip_grad_norm_(weights, design.clip)
        return losses.detach()

    return learn


def scheduled(step: int, design: Design) -> float:
    """Return the share of the peak learning rate at an update: linear warmup, then linear decay to 0."""
    rise = max(1, round(design.warmup * design.steps))
    if step < rise:
        return (step + 1) / rise
    return max(0.0, (design.steps - step) / max(1, design.steps - rise))


def sequences(tokens: torch.Tensor, starts: torch.Tensor, inside: int) -> torch.Tensor:
    """
    Extract sequences from a text.

    Parameters
    ----------
    tokens : Tensor of shape (tokens,)
    starts : Tensor of shape (sequences,)
    inside : int
        Tokens between the two ends.

    Returns
    -------
    Tensor of int64 of shape (sequences, inside + 2)
        With [CLS] in front and [SEP] at the end.
    """
    positions = starts.to(tokens.device)[:, None] + torch.arange(inside, device=tokens.device)
    ids = tokens[positions].long()
    first, last = torch.full_like(ids[:, :1], CLS), torch.full_like(ids[:, :1], SEP)
    return torch.cat([first, ids, last], dim=1)


def _starts(length: int, design: Design, seed: int, step: int) -> torch.Tensor:
    """Return the starts of the sequences of an update: each pass over the text is shifted and reshuffled."""
    inside = design.length - 2
    starts = np.empty(0, dtype=np.int64)
    while len(starts) < design.batch:
        epoch, offset = divmod(step * design.batch + len(starts), (length - inside) // inside)
        remaining = _one_pass(length, inside, seed, epoch)[offset:]
        starts = np.concatenate([starts, remaining])[: design.batch]
    return torch.from_numpy(starts)


@lru_cache(maxsize=2)
def _one_pass(length: int, inside: int, seed: int, epoch: int) -> np.ndarray:
    draw = generator(seed, "zoo", "pass", epoch)
    shift = int(draw.integers(inside))
    return draw.permutation((length - inside) // inside) * inside + shift


def _optimizer(learner: torch.nn.Module, design: Design, device: str) -> Any:
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


def check_out(place: Path) -> None:
    """Raise if a folder holds foreign files, unless a pretraining was begun there."""
    if not any(is_address(candidate) for candidate in (_address_of(place / RUN), _asked_in(place))):
        check_foreign(place, ("*",))


def _asked_in(folder: Path) -> str | None:
    try:
        return (folder / ASKED).read_text("ascii")
    except (OSError, ValueError):
        return None


def _address_of(path: Path) -> str | None:
    try:
        return json.loads(path.read_bytes())["address"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def check_checkpoints(design: Design, checkpoints: Iterable[int]) -> frozenset[int]:
    """Raise if a checkpoint lies beyond the updates of a design."""
    steps = frozenset(checkpoints)
    if steps and not 0 < min(steps) <= max(steps) <= design.steps:
        raise must("checkpoints", f"updates between 1 and {design.steps}", sorted(steps)[-1])
    return steps


def _check_place(folder: Path, expected: str) -> None:
    run_file = folder / RUN
    marker = folder / ASKED
    check_out(folder)
    if run_file.is_file() and _address_of(run_file) != expected:
        raise InputError(f"{folder} must be empty or hold {_SAME}, but it does not.")
    if marker.is_file() and _asked_in(folder) != expected:
        raise InputError(f"{folder} must be empty or hold {_SAME}, but it does not.")
    marker.write_text(expected)
