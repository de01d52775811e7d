"""Which commands does the attack begin from? One short, valid request of each verb."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attack_samples import SMALL

QUICK = ("--set", "steps=4", "--set", "batch=8", "--set", "longest=16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """
    A verb as its parser knows it, and a valid request.

    Parameters
    ----------
    name : str
        Two words for the verbs of the store and of studies.
    words : tuple of str
        What follows the name, without `--out` and `--store`.
    options : mapping of str to int
        How many values an option takes: 0 for a flag, 1, or -1 where it may be repeated.
    required : tuple of str
        The options that must be there.
    """

    name: str
    words: tuple[str, ...]
    options: dict[str, int]
    required: tuple[str, ...]

    def line(self, *more: str, without: str = "") -> list[str]:
        """The request with more words, or without an option."""
        words = list(self.words)
        while without and without in words:
            place = words.index(without)
            del words[place : place + 2]
        return [*self.name.split(), *words, *more]

    def replaced(self, option: str, value: str) -> list[str]:
        """The request with another value of an option."""
        return [*self.line(without=option), option, value]


def requests(good: Path) -> dict[str, tuple[str, ...]]:
    """A short, valid request of each verb over the samples in a folder."""
    bert, first, second = (str(good / name) for name in ("bert", "tuned-1", "tuned-2"))
    study = str(good / "paper" / "study.toml")
    text, other = str(good / "lines.txt"), str(good / "others.txt")
    columns = ("--column", "text=words", "--column", "label=mood")
    task = ("--task", str(good / "mine"), *columns)
    tuning = (*task, *QUICK, "--threads", "1")
    few = ("--sample", "100", "--halves", "10", "--threads", "1")
    small = tuple(word for setting in SMALL for word in ("--set", setting))
    return {
        "similarity": (str(good / "a.npy"), "--threads", "1"),
        "extract": (bert, "--on", text, "--threads", "1"),
        "compare": (bert, first, "--on", text, "--threads", "1"),
        "finetune": (bert, *tuning, "--recipe", "wu2020", "--seeds", "1,2"),
        "evaluate": (first, *task, "--threads", "1"),
        "truncate": (
            first,
            second,
            *task,
            "--base",
            bert,
            "--head-seeds",
            "0",
            "--set",
            "steps=4",
            "--threads",
            "1",
        ),
        "skip": (first, second, *task, "--threads", "1"),
        "freeze": (bert, *tuning, "--seeds", "1,2", "--ks", "1,2", "--no-measure-time"),
        "reinit": (bert, *tuning, "--seeds", "1", "--width", "2"),
        "permute": (bert, *tuning, "--seeds", "1", "--order-seeds", "1-3"),
        "drop": (bert, *tuning, "--seeds", "1", "--strategies", "top,bottom", "--count", "1"),
        # Without times: on a busy machine a warning says that they vary.
        "prune": (first, *task, "--max-drop", "99", "--no-speed", "--threads", "1"),
        "probe": (
            *(bert, "--target", f"task:{good / 'mine'}", *columns, "--epochs", "1", "--seeds", "0,1"),
            *("--threads", "1"),
        ),
        "change": (bert, first, second, "--on", text, *few),
        "domains": (bert, first, second, "--inside", text, "--outside", other, *few),
        "localize": (bert, first, second, "--on", text, *few, "--rotations", "2"),
        "tuning-methods": (
            *(bert, *tuning, "--methods", "full,head", "--rates", "full=1e-3", "--rates", "head=1e-2"),
            *("--seeds", "1,2", "--sample", "100", "--halves", "10", "--head", "stock"),
        ),
        "trajectory": (str(good / "zoo"), "--on", text, "--sample", "100", "--threads", "1"),
        "report": (str(good / "results"),),
        "pretrain": (
            *("replaced", "--corpus", str(good / "corpus.txt"), *small, "--set", "generator=1,32"),
            *("--checkpoints", "2,4", "--threads", "1"),
        ),
        "ls": ("measures",),
        "demo": ("--threads", "1"),
        **dict.fromkeys(("study plan", "study run", "study status", "study report"), (study,)),
        "figure": (str(good / "study"), "--layout", "phang2021:truncation", "--out", "figure.svg"),
        "store ls": (),
        "store show": (),
        "store verify": (),
        "store gc": (),
    }


def verbs(good: Path) -> list[Verb]:
    """Every verb of the program, from its own parser."""
    from microtome.cli.app import command

    known = requests(good)
    found: list[Verb] = []

    def walk(parser: Any, name: str) -> None:
        for word, inner in getattr(parser, "commands", {}).items():
            walk(inner, f"{name} {word}".strip())
        if hasattr(parser, "commands"):
            return
        options = [one for one in parser.params if one.param_type_name == "option"]
        found.append(
            Verb(
                name=name,
                words=known.get(name, ()),
                options={one.opts[0]: 0 if one.is_flag else -1 if one.multiple else 1 for one in options},
                required=tuple(one.opts[0] for one in options if one.required),
            )
        )

    walk(command(), "")
    return found


def typed(words: list[str]) -> Callable[[], int]:
    """What the program does with these words."""

    def action() -> int:
        from microtome.cli import main

        return main(words)

    return action
