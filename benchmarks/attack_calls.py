"""Bad calls of the Python interface: does each end with one clear sentence, and none with a result?"""

from __future__ import annotations

import inspect
import linecache
import math
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

from microtome.randomness import generator

SECONDS = 60.0
MEGABYTES = 1_500
DONE, REFUSED, DEEP = 0, 2, 3
_NAN = math.nan
_RNG = np.random.default_rng(0)
_ROWS: Any = _RNG.normal(size=(60, 8))
_MAP: Any = np.corrcoef(_RNG.normal(size=(6, 40)))

_COUNTS = (-1, 1.5, "3", _NAN, [1], 10**40, 10**400)
_SEED = (-1, 1.5, "x", _NAN, [1])
_SEEDS = (-1, 1.5, "x", [], [1, 1], [-1], [1.5], [None], _NAN, {"a": 1})
_NAMES = ("nope", "", 3, None, ["x"], b"x")
_SHARES = (0, 1, -0.5, 2, _NAN, "x", None, [0.5])
_PATHS = ("nowhere/at/all", "", 3, b"\xff", [], "\0", "a" * 5000)
_LAYERS: tuple[Any, ...] = (
    *(None, 3, "x", [], {}, _ROWS.tolist()[:2], np.zeros(60), np.zeros((0, 8)), np.zeros((60, 0))),
    *(np.full((60, 8), _NAN), np.full((60, 8), np.inf), _ROWS.astype(object), _ROWS.astype(complex)),
    *(np.array([["a"] * 8] * 60), np.zeros((2, 3, 4, 5)), np.ma.masked_array(_ROWS, _ROWS > 1)),
    *(np.zeros((60, 8), dtype="M8[s]"), _ROWS[:2], _ROWS * 1e307, object(), _ROWS.view([("a", "f8")])),
)
_MAPS: tuple[Any, ...] = (
    *(None, 3, "x", [], np.zeros((0, 0)), {"a": 1}, np.array([["a"]]), np.zeros((2, 3, 4, 5))),
    np.ma.masked_array(_MAP, _MAP > 0.5),
)
_MODELS = (None, 3, "nowhere/at/all", "", [], object(), np.zeros(3), {"a": 1})
_TASKS = (None, 3, "sst2", "", [], object(), {"a": 1})
_TEXTS = (None, 3, "nowhere/at/all", "", [], object(), ["a", None], [1, 2], {"a": 1}, np.zeros(3))

# Values that no function may take for a parameter of this name.
BAD: Mapping[str, Sequence[Any]] = {
    **dict.fromkeys(("x", "y", "left"), _LAYERS),
    "layers": _LAYERS,
    "right": tuple(value for value in _LAYERS if value is not None),
    **dict.fromkeys(("select", "evaluate", "jackknife", "map_a", "map_b"), _MAPS),
    **dict.fromkeys(("values", "before_after", "neuron", "svcca"), _MAPS),
    **dict.fromkeys(("encoder", "tuned", "base", "model"), _MODELS),
    "models": (*_MODELS, ["nowhere"], [None]),
    "task": _TASKS,
    **dict.fromkeys(("on", "inside", "outside"), _TEXTS),
    **dict.fromkeys(("seed", "train_seed", "reinit_seed"), _SEED),
    **dict.fromkeys(("seeds", "head_seeds"), _SEEDS),
    "level": _SHARES,
    "share": _SHARES,
    **dict.fromkeys(("halves", "rotations", "random_draws", "repeats", "draws", "groups"), _COUNTS),
    **dict.fromkeys(("control_draws", "random_baselines"), (-1, 1.5, "x", _NAN, [-1])),
    **dict.fromkeys(("permutations",), (-1, 1.5, "x", _NAN, [-1], 10**40)),
    **dict.fromkeys(("train_size", "longest", "steps", "epochs", "size"), (0, -1, 1.5j, "x", _NAN, [1])),
    "sample": (0, -1, 1.5, "x", _NAN, [1], 1),
    **dict.fromkeys(("batch_tokens", "width", "fixed_updates", "trial_seeds"), (0, -1, "x", _NAN, [1])),
    "remove_top": (-1, 1.5, "x", 99),
    "random_baselines": (-1, 1.5, "x", _NAN),
    "threads": (0, -1, 1.5, "x", 100_000),
    "memory": ("lots", "", -1, 0, _NAN, [], "1XB"),
    "rows": ("nope", "", 3, None, ["x"], b"x"),
    **dict.fromkeys(("subword", "special", "template", "direction", "recipe", "target", "match"), _NAMES),
    **dict.fromkeys(("scheme", "layernorm", "activation", "reads", "pooler", "schedule"), _NAMES),
    **dict.fromkeys(("exact", "published", "head", "probe", "split", "on_split"), ("nope", "", 3, ["x"])),
    **dict.fromkeys(("measure", "measures"), ("nope", "", 3, None, [], [3], "svcca:threshold=9", b"rsa")),
    **dict.fromkeys(
        ("method", "plan", "schemes", "strategies", "then", "parts", "kinds"), ("nope", "", 3, [3])
    ),
    **dict.fromkeys(("arms", "methods", "solvers"), ("nope", "", 3, [3], [])),
    **dict.fromkeys(("dtype", "precision", "storage"), ("float3", "", 3, None, "int8")),
    "autocast": ("float3", "", 3),
    "device": ("abacus", 3.5, [], "cuda:99", "meta"),
    "clusters": (3, "nowhere.npy", np.zeros(3), np.zeros((60, 2)), np.full(60, _NAN), [None] * 60, {}),
    "leave_out": (3, "nowhere.npy", np.zeros((60, 60)), np.array([99]), [-99], np.full(60, _NAN)),
    "names": (3, "x", [1, 2], ["a"], ["a"] * 99),
    **dict.fromkeys(("path", "folder", "source", "checkpoints"), _PATHS),
    **dict.fromkeys(("store", "record"), ("", 3, b"\xff", [], "\0")),
    "name": ("nowhere/at/all", "", 3, b"\xff", [], "\0"),
    "data": ("nowhere/at/all", 3, b"\xff", []),
    "max_drop": (-1, _NAN, math.inf, "x", None, [1]),
    **dict.fromkeys(("certify_on", "confirm_on"), ("nope", 3, [])),
    **dict.fromkeys(("ks", "sizes", "count", "orders"), (-1, "x", [99], [1.5], [None])),
    "rates": (3, "x", {"full": []}, {"nope": [1e-3]}, {"full": [-1.0]}, {"full": ["x"]}, {"full": [_NAN]}),
    "others": (3, "nowhere", [None], [3]),
    **dict.fromkeys(("tolerance", "low", "high", "positions"), ("x", _NAN, [1, 2, 3], -1)),
    "revisions": (3, [3], [None]),
    "cases": (None, 3, [], [3], "x"),
    "runs": (None, 3, [], [3], "x"),
    **dict.fromkeys(("keep", "bottom", "top", "past"), (-1, 1.5, "x", _NAN)),
    "blocks": (-1, "x", (), (0,), (1.5,), (1, 1), 3),
    "order": (-1, "x", (), (1, 1), (1.5,), (0, 1)),
    **dict.fromkeys(("batch", "accumulate", "stride", "longest_span"), (0, -1, 1.5, "x", None, _NAN)),
    **dict.fromkeys(("rate", "epsilon", "decay", "clip", "warmup", "dropout"), (-1.0, "x", _NAN, [1])),
    "betas": (3, (2, 3), ("a", "b"), (0.9,), (_NAN, 0.9)),
    "dense": (-1, 1.5, "x", None),
    "interventions": (None, 3, "truncate", object()),
    "embeddings": ("nope", 3.5, []),
    "tokenizer": (3, "nowhere/at/all", object()),
    "random_init": ("yes",),
    "start": (3, "nowhere/at/all", object()),
    "board": (3,),
    "file": ("/dev/null/x", 3, "\0"),
}
_SKIPPED = (
    "progress",
    "command",
    "options",
    "own",
    "shelf",
    "address",
    "notes",
    "citation",
    "cached",
    "spectra",
)
_SKIPPED += ("certainty", "causal", "zscore", "twin", "control", "measure_time", "speed", "trust_remote_code")
_SKIPPED += ("unit", "made", "bias_correction", "bucket", "state_seconds", "revision", "right_names")


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
    pair = (_ROWS, _ROWS[:, :6])
    halves = np.stack([_MAP] * 10)
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
    maps = np.stack([_RNG.dirichlet(np.ones(5), size=(4, 5)) for _ in range(2)])
    return {
        "similarity": (pair, {}),
        "similarity_matrix": (([_ROWS, _ROWS[:, :6]],), {}),
        "attention_similarity_matrix": (([list(maps[:, None])] * 2,), {}),
        "convergence": (pair, {}),
        "find_blocks": (([_ROWS] * 6,), {}),
        "find_localization": (([_ROWS] * 3,), {"rotations": 2}),
        "block_structure": ((_MAP, _MAP, halves), {}),
        "change_profile": ((np.linspace(1, 0.2, 5),), {}),
        "layer_matching": ((_MAP,), {}),
        "localization": ((_MAP[:3, :3], _MAP[:3, :3]), {}),
        "mantel": ((_MAP, _MAP), {}),
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
    return names + [name for name, value in vars(mt.analysis).items() if inspect.isfunction(value)]


def function_of(name: str) -> Any:
    """The public function of a name, which may be one of `mt.analysis`."""
    import microtome as mt

    return getattr(mt.analysis, name, None) or getattr(mt, name)


def _of(name: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Iterator[Call]:

    parameters = list(inspect.signature(function_of(name)).parameters.values())
    for place, parameter in enumerate(parameters):
        if parameter.name in _SKIPPED:
            continue
        for value in bad_values(name, parameter.name):
            if value is parameter.default:
                continue
            changed, others = list(arguments), dict(named)
            if parameter.kind is parameter.VAR_POSITIONAL or place < len(arguments):
                changed[place] = value
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


# Where a name means something else in one function.
OWN: Mapping[tuple[str, str], Sequence[Any]] = {
    ("watch", "layers"): ("nope", "", 3, [], [3], ["0", "nope"]),
    ("watch", "model"): (None, 3, "x", object()),
    ("watch", "rows"): ("nope", 3),
    ("similarity_matrix", "rows"): (2, -1, 1.5, "x", _NAN),
    ("probe", "layers"): ("nope", 3, [3], ["99"]),
    ("probe", "size"): (0, -1, "x", _NAN),
    ("held_out", "source"): ("nope", "", 3),
    ("held_out", "size"): (0, -1, 1.5, "x", _NAN, 10**9, None),
    ("finetune", "seeds"): (3, "x", {"nope": 1}, {"order": -1}, {"order": "x"}, [1]),
    ("finetune", "checkpoints"): ("nope", 3.5, [-1], ["x"], [_NAN]),
    ("finetune", "epochs"): (0, -1, "x", _NAN),
    ("Recipe", "name"): (),
    ("Recipe", "epochs"): (0, -1, "x", _NAN),
    ("Recipe", "head"): (),
    ("load", "name"): (),
    ("Skip", "blocks"): (-1, "x", (0,), (1.5,), (1, 1), 3),
    ("Reinit", "blocks"): (-1, "x", (0,), (1.5,), (1, 1), 3),
    ("finetune", "task"): (None, 3, "nope", [], object(), {"a": 1}),
    ("Reinit", "keep"): ("x", (-1,), (1.5,)),
    ("permute", "order_seeds"): (-1, "x", [-1], [1.5], [], [_NAN]),
    ("permute", "orders"): (3, "x", [[1, 1]], [[99]], [3]),
    ("freeze", "embeddings"): (),
    ("Freeze", "embeddings"): (),
    ("task", "data"): (),
    ("localization", "direction"): ("nope", "", 3, None),
    ("tuning_methods", "on"): (3, "nowhere/at/all", object(), [1, 2]),
    ("prune", "on"): ("nope", 3, []),
    ("prune", "recover"): (-1, "x", 1.5),
    ("probe", "on"): (None, 3, "nowhere/at/all", [], object(), ["a", None]),
    ("study", "source"): ("phang2012", 3, b"\xff", [], "\0", {}),
    ("study", "models"): ("x", 3, [1], {"nope": "zoo:masked"}, {"masked": 3}),
    ("study", "data"): ("nowhere/at/all", 3, [], "\0"),
    ("study", "size"): ("tiny", "", 3, [3]),
    ("report", "folder"): ("nowhere/at/all", 3, b"\xff", [], "\0"),
    ("open_tuned", "folder"): ("nowhere/at/all", "", 3, b"\xff", [], "\0"),
}


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
            if call.name == "task":
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
