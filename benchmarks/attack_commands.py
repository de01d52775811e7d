"""Bad command lines: does each end with the promised code and one sentence, in time, without a result?"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

from attack_child import Ended, run, spread
from attack_samples import FILES, MODELS, ROOT, TASKS
from attack_studies import bad_studies
from attack_verbs import Verb, typed, verbs

from microtome.randomness import generator

SECONDS = 60.0  # of processor time: a wrong request is answered before it is worked on
MEGABYTES = 1_500
_WHOLE = ("-1", "1.5", "nan", "inf", "x", "", "9" * 30, "0x10", " ", "1;2")
_COUNT = ("0", *_WHOLE)
_SHARE = ("0", "1", "-0.5", "1.5", "nan", "-inf", "x", "", "95%")
_NAMES = ("nope", "", ",", "full,,head", "é", "\udcff", "a" * 5000, "../x", "-", "*", "None")
_SEEDS = ("-1", "1.5", "x", "", "1,1", "3-1", "1-", "9" * 30, "1-1000000000", "nan", "0x1")
_SETTINGS = (
    *("rate", "rate=", "=1", "nope=1", "rate=x", "rate=nan", "rate=-1", "steps=0", "steps=-1", "steps=1.5"),
    *("batch=0", "batch=x", "longest=-5", "longest=0", "warmup=-1", "warmup=nan", "epochs=-1", "rate=inf"),
)
# Values of an option that no verb may take. What is a number for one verb and a list for others is in both.
BAD: Mapping[str, Sequence[str]] = {
    "--measures": (
        "nope",
        "",
        ",",
        "svcca:threshold=3",
        "svcca:nope=1",
        "rsa:",
        "debiased_cka,nope",
        "cka" * 900,
    ),
    "--measure": ("nope", "", "svcca:threshold=-1"),
    "--level": _SHARE,
    "--share": ("0", "1", "-0.5", "1.5", "nan", "inf", "x", ""),
    "--halves": ("-1", "1.5", "x", "", "nan", "9" * 30),
    "--order-seeds": ("-1", "1.5", "x", "nan", "9" * 30),
    "--permutations": ("-1", "1.5", "x", "nan", "9" * 30),
    "--twins": _WHOLE,
    "--random-baselines": _WHOLE,
    "--remove-top": ("-1", "1.5", "x", "8000", "9" * 30),
    "--precision": ("half", "", "int3", "float99", "fast,exact"),
    "--memory": ("lots", "", "0", "-1GB", "1XB", "nan", "inf", "GB", "1e400GB"),
    "--device": ("abacus", "", "cuda:99", "cpu:-1", "cuda:x", "meta"),
    "--threads": ("0", "-1", "x", "1.5", "", "100000", "9" * 30),
    "--seed": ("-1", "1.5", "x", "", "nan", "1e3"),
    "--reinit-seed": ("-1", "1.5", "x", ""),
    "--seeds": _SEEDS,
    "--head-seeds": _SEEDS,
    "--trial-seeds": ("0", "-1", "x", "1.5", "99"),
    "--subword": _NAMES,
    "--special": _NAMES,
    "--longest": ("0", "-1", "1.5", "x", "", "1"),
    "--sample": ("0", "-1", "1.5", "x", "", "1", "nan"),
    "--exact": _NAMES,
    "--published": _NAMES,
    "--storage": ("float3", "", "int8", "complex64", "float32,float16"),
    "--batch-tokens": ("0", "-1", "x", "nan"),
    "--read": ("", "=", "nope=1", "format", "format=nope", "columns=", "=x"),
    "--read-inside": ("", "=", "nope=1", "format=nope"),
    "--read-outside": ("", "=", "nope=1", "format=nope"),
    "--dtype": ("float3", "", "int8", "complex64", "float32,float16"),
    "--tokenizer": ("nowhere/at/all", "", "\udcff"),
    "--recipe": ("nope", "", "wu2020,wu2020", "../wu2020"),
    "--set": _SETTINGS,
    "--train-size": ("0", "-1", "x", "1.5", "", "nan", "9" * 30),
    "--head": ("nope", "", "stock,stock"),
    "--method": ("nope", "", "lora:rank=-1", "lora:nope=1", "full,head"),
    "--checkpoints": ("-1", "x", "1.5", "nan"),
    "--at-once": ("0", "-1", "x", "1.5", "", "9" * 30),
    "--column": ("", "=", "text", "text=", "=words", "text=nope", "nope=words", "label=nope"),
    "--held-out": ("nope", "", "0", "-1", "nan"),
    "--split": ("nope", "", "train,validation", "../x"),
    "--arms": ("nope", "", "tuned,nope", ","),
    "--ks": ("-1", "x", "99", "1.5", "0-99"),
    "--parts": ("nope", "", "bottom,nope"),
    "--plan": ("nope", "", "progressive,nope"),
    "--width": ("0", "-1", "x", "1.5"),
    "--schemes": ("nope", "", "library,nope"),
    "--bias": ("nope", "reset,nope"),
    "--layernorm": ("nope", ""),
    "--sizes": ("0", "-1", "x", "nan"),
    "--fixed-updates": ("0", "-1", "x", "1.5"),
    "--kinds": ("nope", "", "random,nope"),
    "--order": ("1", "1,1,2", "x", "", "0,1,2,3,4", "1,2,99", "-1,2,3"),
    "--count": ("0", "-1", "99", "x", "1.5"),
    "--strategies": ("nope", "", "top,nope"),
    "--random-draws": ("-1", "x", "1.5"),
    "--then": ("nope", ""),
    "--max-drop": ("-1", "nan", "inf", "x", "", "1e400"),
    "--certify-on": ("nope", ""),
    "--confirm-on": ("nope", ""),
    "--recover": ("nope", "-1"),
    "--target": ("nope", "", "task:", "task:nope", ","),
    "--probe": ("nope", ""),
    "--layers": ("-1", "99", "x"),
    "--control-draws": ("-1", "x", "1.5"),
    "--steps": ("0", "-1", "x"),
    "--size": ("0", "-1", "x"),
    "--solvers": ("nope", ""),
    "--epochs": ("0", "-1", "x"),
    "--template": ("nope", ""),
    "--direction": ("nope", "", "in,nope"),
    "--rotations": ("-1", "x", "1.5", "9" * 30),
    "--methods": ("nope", "", "full,nope", "full,full"),
    "--rates": ("full", "full=", "nope=1e-3", "full=x", "full=-1", "full=nan", "full=0", "=1"),
    "--match": ("nope", ""),
    "--older-than": ("-1", "x", "nan", "", "inf"),
    "--layout": ("nope", "", "phang2021", "phang2021:0", "phang2021:99", "wu2020:truncation", "wu2020:"),
    "--wide": ("nope", "", "column,page", "84"),
    "--model": ("nope", "", "=", "bert=", "=zoo:masked", "nope=zoo:masked", "bert=zoo:nope", "bert=\udcff"),
    "--workers": ("0", "-1", "x", "1.5", "", "9" * 30),
    "--pack": ("0", "-1", "x", "1.5", "", "9" * 30),
    "--ray-address": ("",),
    "--partition": ("",),
    "--processes": ("0", "-1", "x", "1.5", "9" * 30),
    "--function": ("nope", "", "os:nope", "nope:nope", ":", "os"),
    "--encoders": ("nope", "", ",", "masked,masked"),
    "--clusters": (),
    "--leave-out": (),
}
_TEXTS = tuple(
    name for name in FILES if not name.endswith((".npy", ".safetensors", ".toml")) and name != "other.toml"
)
_ARRAYS = tuple(name for name in FILES if name.endswith((".npy", ".safetensors")))
_PLACES = ("empty", "binary", "fifo", "folder", "loop", "broken.json", "deep.json")
# Options that name files, and what of the bad ones is given to them.
READ: Mapping[str, Sequence[str]] = {
    "--on": _TEXTS,
    "--inside": _TEXTS,
    "--outside": _TEXTS,
    "--corpus": tuple(name for name in _TEXTS if name not in ("broken.json", "deep.json")),
    "--clusters": (*_ARRAYS, "fifo.npy", "folder", "empty"),
    "--leave-out": (*_ARRAYS, "fifo.npy", "folder", "empty"),
    "--data": _PLACES,
    "--task": (
        "empty",
        "binary",
        "fifo",
        "loop",
        "broken.toml",
        "other.toml",
        "typed.toml",
        "broken.parquet",
    ),
    "--start": _PLACES,
    "--base": _PLACES,
    "--against": _PLACES,
    "--token-cache": ("empty", "binary", "fifo"),
}
_NOWHERE = ("nowhere", "", "/dev/null/x", "a" * 300, "\udcff/x", "/proc/self/mem")
_OUTS = ("file", "file/below", "/proc/nothing", "/dev/null", "x" * 300, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One bad command line, and what is bad of it."""

    kind: str
    verb: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join(["microtome", *self.words]).encode("ascii", "backslashreplace").decode()


def lines(good: Path, bad: Path, seed: int = 0) -> list[Line]:
    """All bad command lines, those of different verbs and kinds in turn."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for verb in verbs(good):
        for kind, words in _of(verb, good, bad):
            line = Line(kind=kind, verb=verb.name, words=tuple(words))
            groups.setdefault((kind, verb.name), []).append(line)
    for group in groups.values():
        rng = generator(seed, "attack", "order", group[0].kind, group[0].verb)
        group[:] = [group[k] for k in rng.permutation(len(group))]
    turns = zip_longest(*groups.values())
    return [line for turn in turns for line in turn if line is not None]


def _of(verb: Verb, good: Path, bad: Path) -> Iterator[tuple[str, list[str]]]:
    known = verb.options
    for option in known:
        for value in BAD.get(option, ()):
            yield f"value of {option}", verb.replaced(option, value)
        studied = option == "--data" and verb.name.startswith(("study", "figure"))
        for name in READ.get(option, ()):
            if studied and name == "folder":  # it may hold the corpora of a study
                continue
            yield f"file for {option}", verb.replaced(option, str(bad / "files" / name))
        if option in READ:
            for value in _NOWHERE:
                yield f"file for {option}", verb.replaced(option, value)
        if known[option]:
            yield "option without a value", [*verb.line(without=option), option]
        else:
            yield "value of a flag", verb.line(f"{option}=yes")
        yield "misspelled option", verb.line(f"{option}x", *(["1"] if known[option] else []))
    for option in verb.required:
        yield "missing option", verb.line(without=option)
    yield "unknown option", verb.line("--bogus")
    yield "unknown option", verb.line("-Z")
    yield "unknown verb", [verb.name[:-1] + "_", *verb.words]
    if verb.name in ("similarity", "report", "ls", "extract", "finetune", "evaluate", "prune", "probe"):
        yield "more arguments", [*verb.name.split(), "a", "b", "c", *verb.words]
    for option, value in pairwise(verb.words):
        if known.get(option) == 1:
            yield "repeated option", [*verb.line(), option, value]
    if "--task" in known:
        for name in TASKS:
            yield "bad task", verb.replaced("--task", str(bad / "tasks" / name))
    others = ("similarity", "report", "figure", "study plan", "study run", "study status", "study report")
    if verb.words and verb.words[0].startswith(str(good)) and verb.name not in others:
        for name in MODELS:
            yield "bad model", [*verb.name.split(), str(bad / "models" / name), *verb.words[1:]]
        for name in (
            "nowhere",
            "",
            "zoo:nope",
            "no/such-model",
            "http://x",
            "\udcff",
            "-",
            str(good / "lines.txt"),
        ):
            yield "bad model", [*verb.name.split(), name, *verb.words[1:]]
    if verb.name in ("similarity",):
        for name in (*_ARRAYS, *_PLACES):
            yield "bad layers", ["similarity", str(bad / "files" / name)]
            yield "bad layers", ["similarity", str(good / "a.npy"), str(bad / "files" / name)]
    if verb.name == "report":
        for name in _PLACES:
            yield "bad folder", ["report", str(bad / "files" / name)]
        yield "bad folder", ["report", str(good / "mine")]
    if verb.name.startswith("study") or verb.name == "figure":
        rest = verb.words[1:]
        for name in bad_studies():
            yield "bad study", [*verb.name.split(), str(bad / "studies" / name), *rest]
        for name in ("nowhere", "phang2012", "phang2021.toml", "", "\udcff", "-", "a" * 300, *_PLACES):
            place = str(bad / "files" / name) if name in _PLACES else name
            yield "bad study", [*verb.name.split(), place, *rest]
        for name in ("broken.toml", "other.toml", "typed.toml"):
            yield "bad study", [*verb.name.split(), str(bad / "files" / name), *rest]
    if verb.name == "call":
        for text in ("", "{", "3", "null", "[]", "[1]", "{}", '{"kind": "nope"}', "@nowhere", "@", "[{}]"):
            yield "bad call", ["call", text]
    if verb.name in ("store show", "store verify"):
        for address in ("x", "0" * 40, "../..", "\udcff"):
            yield "bad address", [*verb.name.split(), address]
    if verb.name.startswith(("store", "study")) and "--store" in known:
        for place in ("file", str(good / "mine"), "/dev/null"):
            yield "bad store", [*verb.line(), "--store", place]
    if "--out" in known and verb.name not in ("report", "demo", "ls"):
        others = [str(good / "results")] if verb.name == "study report" else []
        for place in (*_OUTS, *others, str(good / "a.npy")):
            yield "bad --out", verb.replaced("--out", place)


_WITHOUT_OUT = ("store", "ls", "report", "call", "study plan", "study run", "study status")


def scene(folder: Path) -> Path:
    """A fresh folder to work in, with what bad outputs name."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "here").mkdir(parents=True)
    (folder / "here" / "file").write_text("mine")
    return folder / "here"


def judge(line: Line, ended: Ended, here: Path) -> str:
    """What is wrong with the end of a bad command; nothing when it ended as promised."""
    said = [text for text in ended.err.splitlines() if text.startswith("microtome: ")]
    if ended.hung:
        return f"it hung for {SECONDS:.0f} seconds"
    if ended.code < 0:
        return f"it died of signal {-ended.code}"
    if "Traceback" in ended.err + ended.out:
        return "it showed a traceback"
    if ended.code == 0:
        return "it was done silently"
    if ended.code not in (1, 2):
        return f"it ended with {ended.code}"
    if "should not have happened" in ended.err:
        return "it was not foreseen"
    usage = line.words[-1:] and not said and "Usage:" in ended.err + ended.out
    if usage and ended.code == 2:
        return ""
    if (
        len(said) != 1
        or not ended.err.endswith("\n")
        or not ended.err.splitlines()[-1].startswith("microtome: ")
    ):
        return "its error was not one sentence"
    if not said[0].rstrip().endswith((".", "?")):
        return "its error was no whole sentence"
    if ended.megabytes > MEGABYTES:
        return f"it took {ended.megabytes} MB"
    left = [
        path for path in here.rglob("*") if path.name in ("result.json", "table.parquet", "model.safetensors")
    ]
    if left or (here / "file").read_text() != "mine":
        return "it left results"
    return ""


def attempt(line: Line, place: Path) -> tuple[str, Ended]:
    """Type a bad command in a process of its own; what is wrong with its end, and the end."""
    here = scene(place)
    words = list(line.words)
    if line.kind not in ("bad --out", "missing option") and not line.verb.startswith(_WITHOUT_OUT):
        words += [] if "--out" in words else ["--out", "out"]
    os.environ["MICROTOME_STORE"] = str(place / "store")
    ended = run(typed(words), here, SECONDS)
    return judge(line, ended, here), ended


def typed_in_a_shell(line: Line, place: Path, closed: str = "") -> str:
    """The same as a program of its own, perhaps with a closed stream; what is wrong with its end."""
    here = scene(place)
    source = {"PYTHONPATH": str(ROOT / "src"), "MICROTOME_STORE": str(place / "store")}
    words = [os.fsencode(word) for word in line.words]
    command = [os.fsencode(sys.executable), b"-m", b"microtome", *words]
    shell = ["/bin/sh", "-c", f'"$@" {closed}', "sh", *command] if closed else command
    try:
        done = subprocess.run(
            shell,
            cwd=here,
            env={**os.environ, **source},
            capture_output=True,
            timeout=10 * SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "it hung"
    out, err = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
    if closed and not err:
        return "" if done.returncode in (1, 2) else f"it ended with {done.returncode}"
    ended = Ended(code=done.returncode, out=out, err=err, seconds=0, hung=False, megabytes=0)
    return judge(line, ended, here)


STREAMS = ("", ">&-", "2>&-", "<&-", ">/dev/full", "2>/dev/full")


def work(job: tuple[Line, str | None], folder: Path) -> dict[str, Any]:
    """A job of the attack: a line, and the streams of its shell where it is typed into one."""
    line, streams = job
    if streams is None:
        problem, ended = attempt(line, folder / "scene")
    else:
        problem, ended = typed_in_a_shell(line, folder / "scene", streams), None
    shown = f"{line} {streams or ''}".strip()
    said = "" if ended is None else ended.err.strip()[-400:]
    return {"line": shown, "kind": line.kind, "verb": line.verb, "problem": problem, "said": said}


def attack(
    ground: Path, place: Path, *, count: int, shells: int, seed: int, processes: int
) -> dict[str, Any]:
    """Type bad command lines; what came of them."""
    every = lines(ground / "good", ground / "bad", seed)
    chosen = every[:count] if count else every
    jobs: list[tuple[Line, str | None]] = [(line, None) for line in chosen]
    step = max(1, len(chosen) // shells) if shells else 0
    jobs += [(chosen[k * step], STREAMS[k % len(STREAMS)]) for k in range(shells)]
    done = spread(jobs, work, place, processes)
    return {
        "lines": len(chosen),
        "typed into a shell": shells,
        "verbs": len({line.verb for line in chosen}),
        "kinds": len({line.kind for line in chosen}),
        "problems": [
            {key: one[key] for key in ("line", "problem", "said")} for one in done if one["problem"]
        ],
    }
