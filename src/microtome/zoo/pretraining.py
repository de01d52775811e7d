"""Resumable pretraining of the small encoders."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..context import Context
from ..encoders.versions import provenance
from ..errors import InputError, must
from ..findings.results import plain
from ..lazy import torch
from ..randomness import generator, repeatable
from ..store.address import address, is_address
from ..store.files import write_whole
from ..store.outfolder import RESULT, check_foreign, make_folder
from ..training.optimization.cuda_graphs import TrainingStep
from ..training.optimization.loop import STATE_SECONDS, TrainingRecords, run_updates
from ..training.optimization.progress import read_state, write_state
from .designs import Design
from .objectives import Learner
from .shipped import save_encoder
from .text import CLS, SEP, Text

RUN, ASKED = "pretraining.json", "asked"
LOG_STEPS = 50
# Cross-entropy of a unigram model: the plateau of failed runs.
PLATEAU = 5.6


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
    facts : mapping
        Further facts of its provenance: the options of the command.
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
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

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
                **self.facts,
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
        write_whole(path / RESULT, [content])
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
        done, sums = read_state(path, learner, optimizer)
        if device == "cuda" if compiled is None else compiled:
            learner.hasten()
        tokens = torch.from_numpy(text.train.astype(np.int32)).to(device)
        training_step = _training_step(learner, design, device)

        def step(update: int) -> list[torch.Tensor]:
            for group in optimizer.param_groups:
                group["lr"] = design.rate * scheduled(update, design)
            torch.manual_seed(int(generator(seed, "zoo", "step", update).integers(2**62)))
            starts = _starts(len(text.train), design, seed, update)
            losses = training_step({"ids": sequences(tokens, starts, inside)})
            optimizer.step()
            return [losses]

        def summarize(loss_sums: torch.Tensor, count: int, _: int) -> dict[str, float]:
            learned, reported = (loss_sums / count).tolist()
            return {"loss": reported, "learned": learned}

        course = run_updates(
            step,
            design.steps,
            TrainingRecords(
                folder=path,
                save=lambda update: save_encoder(learner, text.tokenizer, path / f"step-{update}"),
                save_at=kept_steps,
                context=context,
                label=design.name,
                state_seconds=state_seconds,
                log_updates=LOG_STEPS,
            ),
            summarize=summarize,
            done=done,
            sums=sums,
            write=lambda folder, update, sums: write_state(folder, learner, optimizer, update, sums),
        )
    failure = course.diverged or _failure(design, course.losses)
    if course.updates == design.steps:
        save_encoder(learner, text.tokenizer, path)
    record = {
        "address": address(specification),
        **specification,
        "losses": course.losses,
        "updates": course.updates,
        "tokens": course.updates * design.batch * inside,
        "seconds": round(course.seconds, 1),
        "failure": failure,
        "command": context.command,
        "torch": torch.__version__,
    }
    (path / RUN).write_text(json.dumps(record, indent=1))
    return Pretrained(
        folder=path,
        design=design,
        seed=seed,
        losses=course.losses,
        tokens=record["tokens"],
        seconds=course.seconds,
        failure=failure,
        checkpoints=tuple(path / f"step-{step}" for step in sorted(kept_steps) if step <= course.updates),
        text=text.digest,
        context=replace(context, progress=None),
    )


def _training_step(learner: Learner, design: Design, device: str) -> TrainingStep:
    """Make the function that computes the gradients of a batch, and its training and reported losses."""

    def losses_of(batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        # Weights that were cast for one update must not be reused for the next.
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda", cache_enabled=False):
            return torch.stack(learner(batch["ids"]))

    return TrainingStep(losses_of, learner.parameters(), clip=design.clip, capture=device == "cuda")


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


def _failure(design: Design, losses: Sequence[tuple[int, float]]) -> str | None:
    if design.objective in ("masked", "every", "causal") and losses[-1][1] > PLATEAU:
        return f"still on the plateau of word frequencies: loss {losses[-1][1]:.2f}"
    return None


def check_checkpoints(design: Design, checkpoints: Iterable[int]) -> frozenset[int]:
    """Raise if a checkpoint lies beyond the updates of a design."""
    steps = frozenset(checkpoints)
    if steps and not 0 < min(steps) <= max(steps) <= design.steps:
        raise must("checkpoints", f"updates between 1 and {design.steps}", sorted(steps)[-1])
    return steps


def check_out(folder: Path) -> None:
    """Raise if a folder holds foreign files, unless a pretraining was begun there."""
    if _address_in(folder) is None:
        check_foreign(folder, ("*",))


def _address_in(folder: Path) -> str | None:
    """Address of the pretraining that was begun in a folder."""
    try:
        text = (folder / ASKED).read_text("ascii")
    except (OSError, ValueError):
        return None
    return text if is_address(text) else None


def _check_place(folder: Path, expected: str) -> None:
    check_out(folder)
    if _address_in(folder) not in (None, expected):
        raise InputError(
            f"{folder} must be empty or hold a run of the same design, text and seed, but it does not."
        )
    (folder / ASKED).write_text(expected)
