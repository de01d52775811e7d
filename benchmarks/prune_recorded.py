"""Is the cut that the search of `prune` finds as good as the best of all candidates, over draws of examples?

Encoders are fine-tuned, and what all 4,095 subsets of their 12 blocks answer is recorded once, best on a GPU.
Then half of the examples are drawn to choose, again and again, and the search and the scoring of every
candidate both read what was recorded. The other half certifies, and scores the cheapest cut of each number
of removed blocks once more. Run it as

    python benchmarks/prune_recorded.py --record DIR --jobs zoo:masked/sst2/1,zoo:masked/qqp/1 \
        --data sst2=SST-2 --data qqp=QQP --device cuda
    PYTHONPATH=src python benchmarks/prune_recorded.py --load DIR --draws 6 --markdown docs/surgery.md
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from microtome.context import Context
from microtome.pruning.certifying import Candidate, certified, fix_sequence, run_sequence
from microtome.pruning.examples import Examples, halves
from microtome.pruning.procedure import Procedure
from microtome.pruning.search import Search
from microtome.scores.table import find_score
from microtome.tasks.task import Item, Split, Task

MARKS = ("<!-- search-recorded -->", "<!-- /search-recorded -->")
DEPTH = 12
FULL = tuple(range(1, DEPTH + 1))
SUBSETS = [cut for size in range(DEPTH, 0, -1) for cut in combinations(FULL, size)]
TRAIN, EPOCHS = {"sst2": 12_000, "qqp": 12_000}, {"stsb": 5}
MOST = 4_000  # examples that are answered
LEVEL = 0.96  # of a first look


def record(folder: Path, job: str, data: Mapping[str, str], device: str) -> None:
    """Fine-tune an encoder, and write what each subset of its blocks answers to examples not trained on."""
    import microtome as mt
    from microtome.pruning.examples import find_examples
    from microtome.tasks.subset import subset
    from microtome.training.cuts import predict_cuts
    from microtome.training.opening import open_model

    name, task_name, seed = job.rsplit("/", 2)
    task = mt.task(task_name, data=data.get(task_name))
    size = {"train_size": TRAIN[task_name]} if task_name in TRAIN else {}
    options = {"rate": 3e-4, "batch": 32, "epochs": EPOCHS.get(task_name, 2), **size}
    tuned = mt.finetune(mt.load(name), task, seed=int(seed), store=folder / "store", device=device, **options)
    context = Context(store=folder / "store", device=device).resolved()
    model = open_model(tuned, task, context=context)
    split = task.split("validation")
    if size:
        rest = find_examples(task, model, split="rest")
        split = replace(rest.choose, items=(*rest.choose, *rest.certify))
    split = subset(split, min(MOST, len(split)))
    found = predict_cuts(
        model.task_model, split, task, model.tokenizer, SUBSETS, longest=model.longest, stride=model.stride
    )
    np.savez_compressed(
        folder / f"{job.replace('zoo:', '').replace('/', '_')}.npz",
        answers=np.array(found, dtype=np.float32 if task.kind == "regression" else np.uint8),
        targets=np.array([item.target for item in split]),
        groups=split.groups,
    )


@dataclass(frozen=True, kw_only=True)
class Recorded(Procedure):
    """
    A pruning whose answers are read from a table.

    Parameters
    ----------
    table : mapping of cut to ndarray
        One answer per example; ids of examples are their places.
    """

    table: Mapping[Any, np.ndarray]

    def answers(self, split: Split, cuts: Sequence[Any], *_: Any, **__: Any) -> dict[Any, list[Any]]:
        """What cuts answered."""
        places = [int(item.id) for item in split]
        return {cut: self.table[cut][places].tolist() for cut in cuts}


def open_recorded(path: Path) -> tuple[Task, Split, dict[Any, np.ndarray]]:
    """Read what one model answered, and the examples without their texts."""
    content = np.load(path)
    kinds = {"sst2": ("accuracy",), "qqp": ("accuracy", "f1"), "stsb": ("pearson", "spearman")}
    name = path.stem.split("_")[1]
    items = tuple(
        Item(id=str(place), texts=("-",), target=target, group=str(group))
        for place, (target, group) in enumerate(
            zip(content["targets"].tolist(), content["groups"].tolist(), strict=True)
        )
    )
    task = Task(
        name=name,
        title=name,
        kind="regression" if name == "stsb" else "classification",
        labels=() if name == "stsb" else ("0", "1"),
        scores=kinds[name],
        main=kinds[name],
        readers=MappingProxyType({}),
        source="recorded",
    )
    return task, Split(name="all", items=items), dict(zip(SUBSETS, content["answers"], strict=True))


def search_once(procedure: Recorded, *, exhaustive: bool) -> dict[str, Any]:
    """Choose and certify, and count the passes."""
    options = replace(procedure.options, exhaustive=exhaustive)
    search = Search(replace(procedure, options=options))
    costs = search.run()
    split = procedure.examples.certify
    full = procedure.full_answers(split)

    def judge(cut: Any) -> Any:
        return procedure.judged(split, full, procedure.answers(split, [cut])[cut], level=LEVEL)

    best: dict[int, Any] = {}
    for cut in sorted(costs, key=costs.__getitem__):
        if costs[cut] <= options.max_drop:
            best.setdefault(DEPTH - len(cut), cut)
    candidates = [Candidate(what=cut, removed=DEPTH - len(cut), cost=cost) for cut, cost in costs.items()]
    passed = certified(run_sequence(fix_sequence(candidates, options.max_drop), judge))
    return {
        "passes": search.done,
        "best": best,
        "certified": 0 if passed is None else passed.candidate.removed,
        "stages": search.stages,
    }


def measure(path: Path, draws: int, max_drop: float) -> dict[str, Any]:
    """Search one model's cuts on several draws of the examples that choose."""
    import microtome as mt
    from microtome.experiments.tuning.pruning import Pruning
    from microtome.training.models.modeling import build
    from microtome.training.opening import Model

    task, split, table = open_recorded(path)
    encoder: Any = mt.load("zoo:masked")  # of which blocks and their family alone are read
    rows = []
    for seed in range(draws):
        choose, certify = halves(split, 0.5, seed)
        procedure = Recorded(
            model=Model(name=path.stem, encoder=encoder, task_model=build(encoder, task, "stock")),
            task=task,
            examples=Examples(choose=choose, certify=certify, confirm=None, share=0.5),
            options=Pruning(model=encoder, task=task, max_drop=max_drop, seed=seed),
            context=Context(),
            table=table,
        )
        whole, part = (search_once(procedure, exhaustive=exhaustive) for exhaustive in (True, False))
        both = [size for size in whole["best"] if size in part["best"]]
        unseen = [
            procedure.cost(certify, table_row(procedure, whole, size), table_row(procedure, part, size))
            for size in both
        ]
        rows.append(
            {
                "passes": part["passes"] / whole["passes"],
                "same": sum(whole["best"][size] == part["best"][size] for size in both),
                "sizes": len(whole["best"]),
                "missed": len(whole["best"]) - len(both),
                "unseen": statistics.mean(unseen or [0.0]),
                "certified": (whole["certified"], part["certified"]),
                "stages": part["stages"],
            }
        )
    score = find_score(task.main)
    value = float(score.compute(table[FULL].tolist(), [item.target for item in split], task.labels))
    return {"name": path.stem, "score": 100 * value, "n": len(split) // 2, "rows": rows}


def table_row(procedure: Recorded, found: dict[str, Any], size: int) -> list[Any]:
    """What the cheapest cut of a size answers to the examples that certify."""
    cut = found["best"][size]
    return procedure.answers(procedure.examples.certify, [cut])[cut]


def show(results: Sequence[dict[str, Any]], max_drop: float) -> str:
    """Put the results into a table."""
    lines = [
        "| model (score) | examples that choose | passes, search to all | lost on unseen examples | blocks "
        "certified to go: all, search | sizes missed |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for result in results:
        rows = result["rows"]
        passes, unseen = ([row[name] for row in rows] for name in ("passes", "unseen"))
        sizes = [statistics.mean(row["certified"][which] for row in rows) for which in (0, 1)]
        lines.append(
            f"| {result['name'].replace('_', ', ')} ({result['score']:.1f}) | {result['n']:,} "
            f"| {statistics.mean(passes):.2f} ({min(passes):.2f} to {max(passes):.2f}) "
            f"| {statistics.mean(unseen):.2f} ({min(unseen):.2f} to {max(unseen):.2f}) "
            f"| {sizes[0]:.1f}, {sizes[1]:.1f} "
            f"| {sum(row['missed'] for row in rows)} of {sum(row['sizes'] for row in rows)} |"
        )
    draws = len(results[0]["rows"])
    lost = [row["unseen"] for result in results for row in result["rows"]]
    return "\n".join(
        [
            *lines,
            "",
            f"Means over {draws} draws (smallest to largest), and over all numbers of removed blocks within "
            f"the margin of {max_drop:g} points; the other half of the examples certifies, and is unseen. "
            f"Lost by the search over all: {statistics.mean(lost):.2f} points.",
        ]
    )


def main() -> None:
    """Record answers, or search among recorded ones."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", type=Path)
    parser.add_argument("--jobs", default="")
    parser.add_argument("--data", action="append", default=[])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--load", type=Path)
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--max-drop", type=float, default=2.0)
    parser.add_argument("--markdown", type=Path)
    given = parser.parse_args()
    if given.record is not None:
        for job in given.jobs.split(","):
            record(given.record, job, dict(part.split("=", 1) for part in given.data), given.device)
        return
    results = [measure(path, given.draws, given.max_drop) for path in sorted(given.load.glob("*.npz"))]
    text = show(results, given.max_drop)
    print(text)
    if given.markdown is not None:
        before, rest = given.markdown.read_text().split(MARKS[0])
        given.markdown.write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{rest.split(MARKS[1])[1]}")


if __name__ == "__main__":
    main()
