"""Bad calls of the Python interface: does each end with one clear sentence, and none with a result?"""

from __future__ import annotations

import inspect
import linecache
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from attack_child import Ended, run, spread
from attack_samples import ROOT
from attack_values import BAD, MAP, OWN, RNG, ROWS, SKIPPED

from microtome.randomness import generator

SECONDS = 60.0
MEGABYTES = 1_500
DONE, REFUSED, DEEP = 0, 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One bad call, and the parameter that is bad of it."""

    name: str
    parameter: str
    value: Any
    arguments: tuple[Any, ...]
    named: dict[str, Any]

    def __str__(self) -> str:
        return f"mt.{self.name}(..., {self.parameter}={short(self.value)})"


def short(value: Any) -> str:
    """A value in a few words."""
    if isinstance(value, np.ndarray):
        return f"{type(value).__name__}(shape={value.shape}, dtype={value.dtype})"
    return ascii(value)[:60]


def samples(good: Path, store: Path) -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    """A valid call of each public function: positional arguments, and those with a name."""
    import torch

    import microtome as mt

    bert, first = mt.load(good / "bert"), mt.load(good / "tuned-1", name="first")
    second = mt.load(good / "tuned-2", name="second")
    own: Any = mt.task(good / "mine", text="words", label="mood")
    text, quick = str(good / "lines.txt"), {"steps": 2, "batch": 8, "longest": 16}
    kept = {"store": str(store)}
    tuned, few = str(good / "tuned-1"), {"sample": 100, "halves": 6}
    study = mt.study(good / "paper" / "study.toml")
    pair = (ROWS, ROWS[:, :6])
    halves = np.stack([MAP] * 10)
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
    maps = np.stack([RNG.dirichlet(np.ones(5), size=(4, 5)) for _ in range(2)])
    return {
        "similarity": (pair, {}),
        "similarity_matrix": (([ROWS, ROWS[:, :6]],), {}),
        "attention_similarity_matrix": (([list(maps[:, None])] * 2,), {}),
        "convergence": (pair, {}),
        "find_blocks": (([ROWS] * 6,), {}),
        "find_localization": (([ROWS] * 3,), {"rotations": 2}),
        "block_structure": ((MAP, MAP, halves), {}),
        "change_profile": ((np.linspace(1, 0.2, 5),), {}),
        "layer_matching": ((MAP,), {}),
        "localization": ((MAP[:3, :3], MAP[:3, :3]), {}),
        "mantel": ((MAP, MAP), {}),
        "monotonicity": ((np.linspace(0, 1, 5),), {}),
        "load": ((str(good / "bert"),), {}),
        "series": ((str(good / "zoo"),), {}),
        "corpus": ((text,), {}),
        "task": ((str(good / "mine"),), {"text": "words", "label": "mood"}),
        "held_out": ((own, 10), {}),
        "extract": ((bert, text), kept),
        "compare": (([bert, first],), {"on": text, **kept}),
        "change": ((bert, [first, second], text), {**kept, **few}),
        "domains": ((bert, [first, second], text, str(good / "others.txt")), {**kept, **few}),
        "localize": (([bert, first, second], text), {**kept, **few, "rotations": 2}),
        "trajectory": ((str(good / "zoo"), text), {**kept, "sample": 100, "draws": 100}),
        "finetune": ((bert, own, "wu2020"), {**kept, **quick}),
        "evaluate": ((tuned, own), {}),
        "open_tuned": ((str(good / "results" / "finetune" / "seed-1"), own), {}),
        "over_seeds": (([],), {}),
        "truncate": ((tuned, own), {"base": str(good / "bert"), "head_seeds": (0,), "steps": 2, **kept}),
        "skip": ((tuned, own), kept),
        "freeze": ((bert, own), {"ks": (1,), "seeds": (1, 2), "measure_time": False, **kept, **quick}),
        "reinit": ((bert, own), {"seeds": (1,), "width": 2, **kept, **quick}),
        "permute": ((bert, own), {"order_seeds": (1,), **kept, **quick}),
        "drop": ((bert, own), {"count": 1, "strategies": "top", "seeds": (1,), **kept, **quick}),
        "tuning_methods": (
            (bert, own),
            {"methods": "head", "rates": {"head": [1e-2]}, "seeds": (1,), **few, **kept, **quick},
        ),
        "prune": ((tuned, own, 99.0), {"speed": False, **kept}),
        "probe": ((bert, str(good / "tagged.conllu")), {"random_baselines": 0, **kept}),
        "report": ((str(good / "results"),), {"file": str(store.parent / "page.html")}),
        "study": (("phang2021",), {"size": "small"}),
        **dict.fromkeys(("Study.plan", "Study.status", "Study.results"), ((study,), kept)),
        "Study.run": ((study,), {**kept, "workers": 1}),
        "Study.report": ((study, str(store.parent / "report")), {"store": str(good / "store")}),
        "open": ((str(good / "results" / "compare"),), {}),
        "apply": ((bert, mt.Truncate(keep=2)), {}),
        "watch": ((net,), {"layers": ["0", "1"]}),
        "Freeze": ((), {"bottom": 1}),
        "Permute": ((), {"seed": 1}),
        "Reinit": ((), {"blocks": (1,)}),
        "Skip": ((), {"blocks": (1,)}),
        "Truncate": ((), {"keep": 1}),
        "Head": ((), {}),
        "Recipe": ((), {"name": "mine", "batch": 8, "rate": 1e-4, "steps": 3}),
    }


def calls(good: Path, store: Path, seed: int = 0) -> list[Call]:
    """All bad calls, those of different functions in turn."""
    known = samples(good, store)
    groups = [list(_of(name, *known[name])) for name in public()]
    for name, group in zip(public(), groups, strict=True):
        group[:] = [group[k] for k in generator(seed, "attack", "calls", name).permutation(len(group))]
    longest = max(len(group) for group in groups)
    return [group[turn] for turn in range(longest) for group in groups if turn < len(group)]


def public() -> list[str]:
    """Every public name that can be called."""
    import microtome as mt

    tables = ("MicrotomeError", "CORPORA", "EXPERIMENTS", "FAMILIES", "HEADS", "INTERVENTIONS", "MEASURES")
    tables += ("RECIPES", "TASKS", "Context", "analysis")
    names = [name for name in dir(mt) if name not in tables and not name.startswith("_")]
    names += [f"Study.{name}" for name in ("plan", "status", "run", "results", "report")]
    return names + [name for name, value in vars(mt.analysis).items() if inspect.isfunction(value)]


def function_of(name: str) -> Any:
    """The public function of a name, which may be one of `mt.analysis`, or a method of studies."""
    import microtome as mt
    from microtome.studies.values import Study

    if name.startswith("Study."):
        return getattr(Study, name.removeprefix("Study."))
    return getattr(mt.analysis, name, None) or getattr(mt, name)


def _of(name: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Iterator[Call]:

    parameters = list(inspect.signature(function_of(name)).parameters.values())
    for place, parameter in enumerate(parameters):
        if parameter.name in SKIPPED:
            continue
        for value in bad_values(name, parameter.name):
            if value is parameter.default:
                continue
            changed, others = list(arguments), dict(named)
            if parameter.kind is parameter.VAR_POSITIONAL or place < len(arguments):
                changed[place] = value
            elif parameter.name == "settings":
                others |= value
            else:
                others[parameter.name] = value
            yield Call(
                name=name, parameter=parameter.name, value=value, arguments=tuple(changed), named=others
            )
    yield Call(name=name, parameter="bogus", value=1, arguments=arguments, named={**named, "bogus": 1})
    extra = (*arguments, *([object()] * 20))
    yield Call(name=name, parameter="(extra)", value=object, arguments=extra, named=dict(named))


def bad_values(name: str, parameter: str) -> Sequence[Any]:
    """The bad values of a parameter of a function."""
    return OWN.get((name, parameter), BAD.get(parameter, ()))


def attempt(call: Call, place: Path) -> tuple[str, Ended]:
    """Call in a process of its own; what is wrong with the end, and the end."""
    place.mkdir(parents=True, exist_ok=True)
    ended = run(acted(call), place, SECONDS)
    if ended.hung:
        return f"it hung for {SECONDS:.0f} seconds", ended
    if ended.code < 0:
        return f"it died of signal {-ended.code}", ended
    if ended.code == DONE:
        return "it was done silently", ended
    if ended.code != REFUSED:
        return "an error came from deep inside", ended
    sentence = ended.err.strip().splitlines()[-1:]
    if not sentence or "\n" in ended.err.split("\x1e")[-1].strip():
        return "its error was not one sentence", ended
    if ended.megabytes > MEGABYTES:
        return f"it took {ended.megabytes} MB", ended
    return "", ended


def acted(call: Call) -> Callable[[], int]:
    """The call, with an exit status that says how it ended and the error after a mark."""

    def action() -> int:
        import microtome as mt

        try:
            answer: Any = function_of(call.name)(*call.arguments, **call.named)
            if call.name == "corpus":
                answer = len(answer)
            if call.name in ("task", "held_out"):
                answer.split("train")
        except mt.MicrotomeError as error:
            sys.stderr.write(f"\x1e{error}\n")
            return REFUSED
        except (TypeError, ValueError) as error:
            where = "" if meant(error) else traceback.format_exc()
            sys.stderr.write(f"\x1e{type(error).__name__}: {error}\n{where}\n")
            return DEEP if where else REFUSED
        except BaseException as error:
            sys.stderr.write(f"\x1e{type(error).__name__}: {error}\n{traceback.format_exc()}\n")
            return DEEP
        print(short(answer))
        return DONE

    return action


def meant(error: BaseException) -> bool:
    """Whether an error was raised on purpose by the package, or says that a call does not fit."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    if isinstance(error, TypeError) and "got an unexpected keyword argument" in str(error):
        return True
    if os.path.basename(last.filename) == os.path.basename(__file__):
        return True
    inside = Path(last.filename).is_relative_to(ROOT / "src" / "microtome")
    line = linecache.getline(last.filename, last.lineno or 0).strip()
    return inside and line.startswith("raise ")


def work(call: Call, folder: Path) -> dict[str, Any]:
    """A job of the attack."""
    problem, ended = attempt(call, folder / "scene")
    return {"call": str(call), "problem": problem, "said": ended.err.strip()[-600:]}


def attack(ground: Path, place: Path, *, count: int, seed: int, processes: int) -> dict[str, Any]:
    """Make bad calls; what came of them."""
    every = calls(ground / "good", place / "store", seed)
    chosen = every[:count] if count else every
    done = spread(chosen, work, place, processes)
    return {
        "calls": len(chosen),
        "functions": len({call.name for call in chosen}),
        "problems": [
            {key: one[key] for key in ("call", "problem", "said")} for one in done if one["problem"]
        ],
    }
