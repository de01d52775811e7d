"""Pretraining of a small encoder, as an experiment; the loop is in `microtome.zoo`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...context import Context
from ...errors import InputError
from ...reading import read_numbers
from ...zoo.designs import Design, find_design
from ...zoo.pretraining import Pretrained, check_checkpoints, check_out, pretrain
from ...zoo.text import check_text, own_tokenizer, read_text
from ..base import Experiment, Plan, option


@dataclass(frozen=True, kw_only=True)
class PretrainingInputs:
    """
    What a pretraining has opened.

    Parameters
    ----------
    design : Design
    tokenizer : str, optional
        As JSON; None where a new one is trained.
    """

    design: Design
    tokenizer: str | None


@dataclass(frozen=True, kw_only=True)
class Pretraining(Experiment):
    """Pretrain a small encoder; the same command resumes an interrupted run."""

    name = Pretrained.kind

    design: str = option(
        "Design: masked, shared, every, replaced or causal.", argument=True, panel="Input", metavar="DESIGN"
    )
    corpus: Any = option(
        "Text file with one paragraph per line, plain or compressed.", panel="Input", metavar="FILE"
    )
    out: Any = option("Folder of the encoder.", panel="Output", metavar="DIR", read=Path)
    tokenizer: str = option(
        "Tokenizer: zoo (that of the package), new (trained on the corpus), or a tokenizer.json.",
        "zoo",
        panel="Input",
    )
    token_cache: str | None = option(
        "Folder that caches the tokenized corpus, for other designs.", None, panel="Input", metavar="DIR"
    )
    changes: Mapping[str, Any] = option(
        "Change a value of the design, such as steps=1000. May be repeated.",
        {},
        name="set",
        repeated=True,
        metavar="NAME=VALUE",
        example="steps=1000",
    )
    seed: int = option("Seed of the weights, the order and the masking.", 0, least=0)
    checkpoints: Sequence[int] = option(
        "Also save the encoder after these updates, as 100,200.",
        (),
        panel="Output",
        read=lambda typed: tuple(read_numbers("--checkpoints", typed, empty=True)),
        metavar="N,...",
    )

    def check_out(self, folder: Path) -> None:
        """Refuse a folder with files of others."""
        check_out(folder)

    def plan(self, context: Context) -> Plan:
        """Check design, corpus and tokenizer, and count the tokens."""
        design = find_design(self.design, **self.changes)
        check_out(Path(self.out))
        tokenizer = self._read_tokenizer()
        check_text(self.corpus, self.token_cache)
        check_checkpoints(design, self.checkpoints)
        tokens = design.steps * design.batch * (design.length - 2)
        return Plan(
            name=design.name,
            summary={"design": design.specification(), "tokens": tokens},
            sentence=f"{design.title}: {design.layers} layers of width {design.width}, {design.steps:,} "
            f"updates of {design.batch} sequences of {design.length}, "
            f"{f'{tokens / 1e6:,.0f} million' if tokens >= 1e6 else f'{tokens:,}'} tokens in all",
            inputs=PretrainingInputs(design=design, tokenizer=tokenizer),
        )

    def run(self, plan: Plan, context: Context) -> Pretrained:
        """Pretrain, or resume."""
        design = plan.inputs.design
        text = read_text(
            self.corpus,
            vocabulary=design.vocabulary,
            tokenizer=plan.inputs.tokenizer,
            folder=self.token_cache,
            context=context,
        )
        return pretrain(design, text, self.out, seed=self.seed, checkpoints=self.checkpoints, context=context)

    def complete(self, plan: Plan, context: Context) -> Pretrained:
        """Pretrain, and write the result beside the encoder."""
        result = super().complete(plan, context)
        result.save()
        return result

    def _read_tokenizer(self) -> str | None:
        try:
            if self.tokenizer == "new":
                return None
            return (
                own_tokenizer()
                if self.tokenizer == "zoo"
                else Path(self.tokenizer).read_text(encoding="utf-8")
            )
        except (OSError, ValueError) as error:
            raise InputError(
                f"--tokenizer must be zoo, new or a readable tokenizer.json, but got: {error}."
            ) from error
