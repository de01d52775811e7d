"""What does an encoder say under one head, on one task, at one rate? With all seeds; for zoo_question.py."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo_cuts import read_layers, truncations
from zoo_maps import similarities

FORMAT = "microtome/zoo-question/1"
CROSSED = "across"
# What makes two encoders have the same twin.
SHAPE = (
    "model_type",
    "is_decoder",
    "num_hidden_layers",
    "num_hidden_groups",
    "hidden_size",
    "num_attention_heads",
    "intermediate_size",
    "vocab_size",
    "max_position_embeddings",
)
# Tasks that need no files.
GENERATED = ("polarity", "entailment", "agreement")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One encoder under one head on one task at one rate, with all its seeds."""

    encoder: str
    head: str
    task: str
    rate: float

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.encoder}_{self.head}_{self.task}_{self.rate:g}"

    @property
    def told(self) -> dict[str, Any]:
        """As plain data."""
        return {"encoder": self.encoder, "head": self.head, "task": self.task, "rate": self.rate}


# What a process of the pool has opened.
_HERE: dict[Any, Any] = {}


def begin(threads: int, zoo: str | None) -> None:
    """Set a process up: one thread, the encoders' folder, and the libraries read once."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    if zoo is not None:
        os.environ["MICROTOME_ZOO"] = zoo
    import torch

    torch.set_num_threads(threads)


def once(key: Any, make: Any) -> Any:
    """Open what this process has not opened yet."""
    if key not in _HERE:
        _HERE[key] = make()
    return _HERE[key]


def open_task(name: str, data: str | None) -> Any:
    """Open a task once; generated ones have no files."""
    import microtome as mt

    made = name in GENERATED
    return once(("task", name), lambda: mt.task(name) if made else mt.task(name, data=data))


def head_of(name: str, encoder: Any) -> Any:
    """The head of a name; where the first token sees only itself, the last one is read instead."""
    import microtome as mt

    if name == "mean":
        return mt.Head(reads="mean", dense=1)
    return mt.Head(reads="last" if encoder.family.causal else "cls", dense=int(name.removeprefix("cls")))


def do(jobs: Sequence[Job], options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """
    Do jobs of one head and task; what fails is told, not raised, so that the others go on.

    Parameters
    ----------
    jobs : sequence of Job
        By encoder, each at the same rates. Several are trained as one.
    options : mapping
        `data`, `seeds`, `epochs`, `updates`, `batch`, `bucket`, `vectorized`, `train_size`, `head_epochs`,
        `device`, `precision`, and where things go: `store`, `out`, `keep_models`, `command`.

    Returns
    -------
    list of dict
        Of each job `name`, `seconds`, `scores`, or `error` where there is one.
    """
    told, start = [], time.monotonic()
    try:
        tuned = tune(jobs, options)
        for job, runs in zip(jobs, tuned, strict=True):
            found = measure(job, options, runs)
            found["seconds"]["training"] = round(runs[0].course["seconds"], 2)
            found["seconds"]["all"] = round(time.monotonic() - start, 2)
            write(Path(options["out"]) / f"{job.name}.json", found)
            seconds, start = found["seconds"]["all"], time.monotonic()
            scores = [run["score"] for run in found["runs"]]
            told.append({"name": job.name, "seconds": seconds, "scores": scores})
    except Exception as error:
        said, spent = f"{type(error).__name__}: {error}", time.monotonic() - start
        told += [{"name": job.name, "seconds": spent, "error": said} for job in jobs[len(told) :]]
    finally:
        let_go(options["device"])
    return told


def tune(jobs: Sequence[Job], options: Mapping[str, Any]) -> list[list[Any]]:
    """Fine-tune with every seed, the models of each job."""
    import microtome as mt
    from microtome.training.multi_seed import finetune_vectorized

    task, seeds = open_task(jobs[0].task, options["data"]), options["seeds"]
    names = list(dict.fromkeys(job.encoder for job in jobs))
    encoders = [once(("encoder", name), lambda name=name: mt.load(f"zoo:{name}")) for name in names]
    common = {
        "head": head_of(jobs[0].head, encoders[0]),
        "dtype": options["precision"],
        "device": options["device"],
        "store": options["store"],
        "command": options["command"],
        **recipe_values(options),
    }
    if options["vectorized"] > 1:
        rates = list(dict.fromkeys(job.rate for job in jobs))
        runs = finetune_vectorized(encoders, task, "devlin2019", seeds=seeds, rates=rates, **common)
    else:
        ((job,), (encoder,)) = jobs, encoders
        runs = [
            mt.finetune(encoder, task, "devlin2019", seed=seed, rate=job.rate, **common) for seed in seeds
        ]
    return [runs[i : i + len(seeds)] for i in range(0, len(runs), len(seeds))]


def shape_of(name: str) -> tuple[Any, ...]:
    """What encoders share that have the same twin, and that can be trained as one."""
    from microtome.encoders.locations import find_folder

    folder = find_folder(f"zoo:{name}")
    assert folder is not None
    config = json.loads((folder / "config.json").read_text())
    return tuple(config.get(each) for each in SHAPE)


def let_go(device: str) -> None:
    """Give back memory of the device that nothing is in: the other processes need it."""
    if device == "cuda":
        import torch

        torch.cuda.empty_cache()


def measure(job: Job, options: Mapping[str, Any], runs: Sequence[Any]) -> dict[str, Any]:
    """Compare tuned models with each other and with the encoder, and cut."""
    import torch

    from microtome.scores.table import find_score
    from microtome.store.shelf import Shelf
    from microtome.tasks.subset import subset
    from microtome.training.inputs import encode
    from microtome.training.models.modeling import build

    clock = Clock()
    task, encoder = open_task(job.task, options["data"]), _HERE["encoder", job.encoder]
    head, device = head_of(job.head, encoder), options["device"]
    train, judged = task.split(task.train), task.split(task.validation)
    if len(train) > options["train_size"]:
        train = subset(train, options["train_size"], seed=0)
    longest = runs[0].longest
    features = [encode(one.items, task, encoder.tokenizer, longest=longest) for one in (train, judged)]
    clock("tokens")
    before = build(encoder, task, head, seed=0).to(torch.device(device))
    kinds = ("cls", "mean") if job.head == "mean" else ("cls",)
    read = [read_layers(one, features[1], judged, task, kinds) for one in (before, *(r.model for r in runs))]
    clock("rows")
    names = ["orig", *(str(seed) for seed in options["seeds"])]
    groups = judged.groups
    maps = {}
    for kind in kinds:
        stacks = {name: one["rows"][kind] for name, one in zip(names, read, strict=True)}
        maps[kind] = similarities(stacks, groups, device)
        clock("maps")
    keep_rows(job, options, {name: one["rows"]["cls"] for name, one in zip(names, read, strict=True)}, judged)
    cuts = truncations(before, runs, read, task, train, judged, features, options)
    clock("truncation")
    if not options["keep_models"]:
        shelf = Shelf(options["store"])
        for run in runs:
            shelf.remove(run.address)
    score = find_score(task.main)
    return {
        "format": FORMAT,
        "job": job.told,
        "options": asked(options),
        "score": {"name": score.name, "points": score.points, "higher_is_better": score.higher_is_better},
        "n": len(judged),
        "guess": statistics.fmean(runs[0].evaluation.baseline[name] for name in task.main),
        "layers": len(read[0]["answers"]),
        "runs": [
            {
                "seed": run.seeds.init,
                "score": run.score.value,
                "low": run.score.low,
                "high": run.score.high,
                "failure": run.failure,
                "updates": run.course["updates"],
                "seconds": run.course["seconds"],
                "loss": run.course["losses"][-1][1],
            }
            for run in runs
        ],
        "maps": maps,
        "truncation": cuts,
        "seconds": clock.spent,
        "at_once": options.get("at_once", 1),
        "machine": machine(device),
    }


class Clock:
    """Owns a running time: tells how long each part took."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self._last = time.monotonic()

    def __call__(self, part: str) -> None:
        now = time.monotonic()
        self.spent[part] = round(self.spent.get(part, 0.0) + now - self._last, 2)
        self._last = now


def keep_rows(job: Job, options: Mapping[str, Any], rows: Mapping[str, Any], judged: Any) -> None:
    """Keep the rows of tuned models beside the store, for maps of different encoders."""
    import numpy as np

    place = Path(options["store"]) / "rows"
    place.mkdir(parents=True, exist_ok=True)
    kept = {name: each.astype(np.float16) for name, each in rows.items() if name != "orig"}
    np.savez(place / f"{job.name}.npz", digest=np.array(judged.digest), **kept)


def across(
    group: tuple[str, str, float], encoders: Sequence[str], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Compare tuned models of different encoders that share head, task and rate, seed by seed."""
    import numpy as np

    start = time.monotonic()
    head, name, rate = group
    task = open_task(name, options["data"])
    judged = task.split(task.validation)
    place, stacks = Path(options["store"]) / "rows", {}
    for encoder in encoders:
        with np.load(place / f"{Job(encoder=encoder, head=head, task=name, rate=rate).name}.npz") as file:
            if str(file["digest"]) == judged.digest:
                stacks[encoder] = {
                    seed: file[seed].astype(np.float32) for seed in file.files if seed != "digest"
                }
    found: dict[str, Any] = {"maps": {}}
    for seed in (str(each) for each in options["seeds"]):
        of_seed = {encoder: each[seed] for encoder, each in stacks.items() if seed in each}
        if len(of_seed) > 1:
            found["maps"][seed] = similarities(of_seed, judged.groups, options["device"])["ft-ft2"]
    told = {"head": head, "task": name, "rate": rate}
    whole = {"format": FORMAT, CROSSED: told, "options": asked(options), "encoders": sorted(stacks), **found}
    write(Path(options["out"]) / f"{CROSSED}_{head}_{name}_{rate:g}.json", whole)
    return {"name": f"{CROSSED} {head} {name} {rate:g}", "seconds": time.monotonic() - start}


def recipe_values(options: Mapping[str, Any]) -> dict[str, Any]:
    """Values of the recipe beside its rate: whichever of epochs and updates ends first."""
    named = {"batch": "batch", "epochs": "epochs", "steps": "updates", "bucket": "bucket"}
    return {name: options[value] for name, value in named.items()}


def asked(options: Mapping[str, Any]) -> dict[str, Any]:
    """What decides the numbers of a job."""
    names = (
        "seeds",
        "epochs",
        "updates",
        "batch",
        "bucket",
        "train_size",
        "head_epochs",
        "device",
        "precision",
    )
    return {name: list(options[name]) if name == "seeds" else options[name] for name in names}


def write(path: Path, found: Mapping[str, Any]) -> None:
    """Write a file whole or not at all."""
    from microtome.findings.results import plain

    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(shortened(plain(found)), separators=(",", ":")))
    temporary.replace(path)


def shortened(value: Any) -> Any:
    """Round numbers to five digits behind the point; learning rates are written as they are."""
    if isinstance(value, float):
        return round(value, 5) if abs(value) > 1e-2 or value == 0 else float(f"{value:.3g}")
    if isinstance(value, dict):
        return {key: shortened(each) for key, each in value.items()}
    return [shortened(each) for each in value] if isinstance(value, list) else value


def machine(device: str) -> str:
    """Where it ran."""
    import torch

    where = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    return f"{where}, torch {torch.__version__}, Python {platform.python_version()}"
