"""Values that no function may take: of parameters by their names, and of single functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

NAN = math.nan
RNG = np.random.default_rng(0)
ROWS: Any = RNG.normal(size=(60, 8))
MAP: Any = np.corrcoef(RNG.normal(size=(6, 40)))

_COUNTS = (-1, 1.5, "3", NAN, [1], 10**40, 10**400)
_SEED = (-1, 1.5, "x", NAN, [1])
_SEEDS = (-1, 1.5, "x", [], [1, 1], [-1], [1.5], [None], NAN, {"a": 1})
_NAMES = ("nope", "", 3, None, ["x"], b"x")
_SHARES = (0, 1, -0.5, 2, NAN, "x", None, [0.5])
_PATHS = ("nowhere/at/all", "", 3, b"\xff", [], "\0", "a" * 5000)
_LAYERS: tuple[Any, ...] = (
    *(None, 3, "x", [], {}, ROWS.tolist()[:2], np.zeros(60), np.zeros((0, 8)), np.zeros((60, 0))),
    *(np.full((60, 8), NAN), np.full((60, 8), np.inf), ROWS.astype(object), ROWS.astype(complex)),
    *(np.array([["a"] * 8] * 60), np.zeros((2, 3, 4, 5)), np.ma.masked_array(ROWS, ROWS > 1)),
    *(np.zeros((60, 8), dtype="M8[s]"), ROWS[:2], ROWS * 1e307, object(), ROWS.view([("a", "f8")])),
)
_MAPS: tuple[Any, ...] = (
    *(None, 3, "x", [], np.zeros((0, 0)), {"a": 1}, np.array([["a"]]), np.zeros((2, 3, 4, 5))),
    np.ma.masked_array(MAP, MAP > 0.5),
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
    **dict.fromkeys(("control_draws", "random_baselines"), (-1, 1.5, "x", NAN, [-1])),
    **dict.fromkeys(("permutations",), (-1, 1.5, "x", NAN, [-1], 10**40)),
    **dict.fromkeys(("train_size", "longest", "steps", "epochs", "size"), (0, -1, 1.5j, "x", NAN, [1])),
    "sample": (0, -1, 1.5, "x", NAN, [1], 1),
    **dict.fromkeys(("batch_tokens", "width", "fixed_updates", "trial_seeds"), (0, -1, "x", NAN, [1])),
    "remove_top": (-1, 1.5, "x", 99),
    "random_baselines": (-1, 1.5, "x", NAN),
    "threads": (0, -1, 1.5, "x", 100_000),
    "memory": ("lots", "", -1, 0, NAN, [], "1XB"),
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
    "clusters": (3, "nowhere.npy", np.zeros(3), np.zeros((60, 2)), np.full(60, NAN), [None] * 60, {}),
    "leave_out": (3, "nowhere.npy", np.zeros((60, 60)), np.array([99]), [-99], np.full(60, NAN)),
    "names": (3, "x", [None, None], ["a"], ["a"] * 99),
    **dict.fromkeys(("path", "folder", "source", "checkpoints"), _PATHS),
    **dict.fromkeys(("store", "record"), ("", 3, b"\xff", [], "\0")),
    "name": ("nowhere/at/all", "", 3, b"\xff", [], "\0"),
    "data": ("nowhere/at/all", 3, b"\xff", []),
    "max_drop": (-1, NAN, math.inf, "x", None, [1]),
    **dict.fromkeys(("certify_on", "confirm_on"), ("nope", 3, [])),
    **dict.fromkeys(("ks", "sizes", "count", "orders"), (-1, "x", [99], [1.5], [None])),
    "rates": (3, "x", {"full": []}, {"nope": [1e-3]}, {"full": [-1.0]}, {"full": ["x"]}, {"full": [NAN]}),
    "others": (3, "nowhere", [None], [3]),
    **dict.fromkeys(("tolerance", "low", "high", "positions"), ("x", NAN, [1, 2, 3], -1)),
    "revisions": (3, [3], [None]),
    "cases": (None, 3, [], [3], "x"),
    "runs": (None, 3, [], [3], "x"),
    **dict.fromkeys(("keep", "bottom", "top", "past"), (-1, 1.5, "x", NAN)),
    "blocks": (-1, "x", (), (0,), (1.5,), (1, 1), 3),
    "order": (-1, "x", (), (1, 1), (1.5,), (0, 1)),
    **dict.fromkeys(("batch", "accumulate", "stride", "longest_span"), (0, -1, 1.5, "x", None, NAN)),
    **dict.fromkeys(("rate", "epsilon", "decay", "clip", "warmup", "dropout"), (-1.0, "x", NAN, [1])),
    "betas": (3, (2, 3), ("a", "b"), (0.9,), (NAN, 0.9)),
    "dense": (-1, 1.5, "x", None),
    "interventions": (None, 3, "truncate", object()),
    "embeddings": ("nope", 3.5, []),
    "tokenizer": (3, "nowhere/at/all", object()),
    "random_init": ("yes",),
    "start": (3, "nowhere/at/all", object()),
    "board": (3,),
    "file": ("/dev/null/x", 3, "\0"),
    "context": (3, "x", object()),
}
SKIPPED = (
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
SKIPPED += ("certainty", "causal", "zscore", "twin", "control", "measure_time", "speed", "trust_remote_code")
SKIPPED += ("unit", "made", "bias_correction", "bucket", "state_seconds", "revision", "right_names")


# Where a name means something else in one function.
OWN: Mapping[tuple[str, str], Sequence[Any]] = {
    ("watch", "layers"): ("nope", "", 3, [], [3], ["0", "nope"]),
    ("watch", "model"): (None, 3, "x", object()),
    ("watch", "rows"): ("nope", 3),
    ("similarity_matrix", "rows"): (2, -1, 1.5, "x", NAN),
    ("probe", "layers"): ("nope", 3, [3], ["99"]),
    ("probe", "size"): (0, -1, "x", NAN),
    ("held_out", "source"): ("nope", "", 3),
    ("held_out", "size"): (0, -1, 1.5, "x", NAN, 10**9, None),
    ("finetune", "seeds"): (3, "x", {"nope": 1}, {"order": -1}, {"order": "x"}, [1]),
    ("finetune", "checkpoints"): ("nope", 3.5, [-1], ["x"], [NAN]),
    ("finetune", "epochs"): (0, -1, "x", NAN),
    ("Recipe", "name"): (),
    ("Recipe", "epochs"): (0, -1, "x", NAN),
    ("Recipe", "head"): (),
    ("load", "name"): (),
    ("Skip", "blocks"): (-1, "x", (0,), (1.5,), (1, 1), 3),
    ("Reinit", "blocks"): (-1, "x", (0,), (1.5,), (1, 1), 3),
    ("finetune", "task"): (None, 3, "nope", [], object(), {"a": 1}),
    ("Reinit", "keep"): ("x", (-1,), (1.5,)),
    ("permute", "order_seeds"): (-1, "x", [-1], [1.5], [], [NAN]),
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
    # Those of a grid may be None, which is their default; sizes too, which is all; a match may be a number.
    **{(name, "recipe"): ("nope", "", 3, ["x"], b"x") for name in ("freeze", "permute", "prune", "truncate")},
    ("reinit", "sizes"): (-1, "x", [0], [1.5], []),
    ("tuning_methods", "match"): ("nope", "", ["x"], NAN),
    ("Study.run", "on"): ("nope", "", 3, None, []),
    # Settings are several parameters.
    ("Study.run", "settings"): (
        *({"workers": 0}, {"workers": "x"}, {"workers": 1.5}, {"workers": NAN}, {"workers": 10**40}),
        *({"pack": 0}, {"pack": None}, {"pack": [1]}, {"nope": 1}, {"gpus": "x"}, {"gpus": -1}),
        *(
            {"slurm": 3},
            {"partition": 3},
            {"ray_address": 3},
            {"folder": 3},
            {"folder": "\0"},
            {"perform": 3},
        ),
    ),
    ("Study.report", "out"): ("", 3, b"\xff", [], "\0", None, "/dev/null/x", "a" * 300, "a" * 5000),
    ("report", "folder"): ("nowhere/at/all", 3, b"\xff", [], "\0"),
    ("open_tuned", "folder"): ("nowhere/at/all", "", 3, b"\xff", [], "\0"),
}
