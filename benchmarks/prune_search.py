"""What does the search of `prune` on growing samples save, and is the cut that it finds as good?

Encoders of the zoo are fine-tuned on generated tasks; then each is pruned twice, with every candidate scored
on all examples that choose and with the search, in turns and each with a store of its own. For every number
of removed blocks the cheapest cut of both is scored once more on examples that neither has seen. Run it as

    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/prune_search.py --store STORE --json prune_search.json
    PYTHONPATH=src python benchmarks/prune_search.py --load prune_search.json --markdown docs/surgery.md
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

MARKS = ("<!-- search -->", "<!-- /search -->")
MARGIN = 2.0
UNSEEN = "held_out"


def tune(model: str, task: Any, seed: int, store: str | None, train: int) -> Any:
    """Fine-tune an encoder of the zoo."""
    import microtome as mt

    options = {"train_size": train, "epochs": 2, "batch": 16, "rate": 2e-4, "longest": 64}
    return mt.finetune(mt.load(model), task, seed=seed, store=store, device="cpu", **options)


def cheapest(pruned: Any) -> dict[int, tuple[int, ...]]:
    """The cheapest cut of each number of removed blocks, among those that were scored on all examples."""
    most = max(cut["examples"] for cut in pruned.candidates)
    best: dict[int, Any] = {}
    for cut in pruned.candidates:
        if cut["examples"] == most and cut["cost"] <= best.get(cut["removed"], cut)["cost"]:
            best[cut["removed"]] = cut
    return {removed: cut["kept"] for removed, cut in best.items() if cut["cost"] <= MARGIN}


def prune_once(tuned: Any, task: Any, *, exhaustive: bool) -> dict[str, Any]:
    """Prune with a fresh store, and time it."""
    import microtome as mt
    from microtome.experiments.tuning.pruning import Pruning
    from microtome.pruning.search import Search

    seen: list[tuple[int, int]] = []
    with tempfile.TemporaryDirectory() as store:
        options: dict[str, Any] = {"split": "validation", "certify_on": "test", "speed": False}
        experiment = Pruning(model=tuned, task=task, max_drop=MARGIN, exhaustive=exhaustive, **options)
        context = mt.Context(
            store=store, device="cpu", progress=lambda what, done, of: seen.append((done, of))
        ).resolved()
        plan = experiment.plan(context)
        search = Search(replace(plan.inputs, context=context))
        wall, cpu = time.perf_counter(), time.process_time()
        search.run()
        seconds = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        pruned = experiment.run(plan, context)
    return {
        **seconds,
        "passes": search.done,
        "estimate": plan.summary["seconds"],
        "stages": [(stage.cuts, stage.examples) for stage in pruned.search],
        "cuts": pruned.scored,
        "certified": pruned.depth - len(pruned.kept),
        "kept": pruned.kept,
        "cheapest": cheapest(pruned),
        "inputs": plan.inputs,
    }


def compare(inputs: Any, split: Any, cuts: Sequence[tuple[int, ...]]) -> tuple[float, float]:
    """Points that the second cut loses to the first on other examples, with the standard error."""
    answers = inputs.answers(split, [*dict.fromkeys(cuts)])
    drop = inputs.judged(split, answers[cuts[0]], answers[cuts[1]], level=0.95, limit=False)
    return drop.drop, drop.se


def measure(models: Sequence[str], tasks: Sequence[str], seeds: Sequence[int], **options: Any) -> Any:
    """
    Prune every model twice.

    Returns
    -------
    list of dict
    """
    import microtome as mt

    rows = []
    for name in tasks:
        sizes = {"validation": options["choose"], "test": options["choose"], UNSEEN: options["unseen"]}
        task = mt.task(name, sizes={"train": options["train"], **sizes})
        for model in models:
            for seed in seeds:
                tuned = tune(model, task, seed, options["store"], options["train"])
                order = (True, False) if len(rows) % 2 else (False, True)
                found = {exhaustive: prune_once(tuned, task, exhaustive=exhaustive) for exhaustive in order}
                whole, part = found[True], found[False]
                inputs = part["inputs"]
                pairs = [
                    (whole["cheapest"][removed], part["cheapest"][removed])
                    for removed in whole["cheapest"]
                    if removed in part["cheapest"]
                ]
                split = task.split(UNSEEN)
                worse = [compare(inputs, split, pair) for pair in pairs]
                chosen = compare(inputs, split, (whole["kept"], part["kept"]))
                missed = len(whole["cheapest"]) - len(pairs)
                for one in found.values():
                    del one["inputs"], one["cheapest"]
                rows.append(
                    {
                        "model": model,
                        "task": name,
                        "seed": seed,
                        "standing": inputs.standing(split).plain(),
                        "whole": whole,
                        "part": part,
                        "same": sum(first == second for first, second in pairs),
                        "sizes": len(pairs),
                        "missed": missed,
                        "worse": worse,
                        "chosen": chosen,
                    }
                )
                print(json.dumps(rows[-1]), flush=True)
    return rows


def tables(document: dict[str, Any]) -> str:
    """Put what was measured into two tables."""
    rows = document["rows"]
    lines = [
        "| model, task, seed (score, majority baseline) | passes, search to all | CPU time | seconds taken "
        "(and estimated): all | search | blocks certified to go: all, search | same cut | lost on unseen "
        "examples |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        whole, part, standing = row["whole"], row["part"], row["standing"]
        drops = [drop for drop, _ in row["worse"]] or [0.0]
        name = f"{row['model']}, {row['task']}, {row['seed']}"
        cells = [
            f"{name} ({standing['value']:.3f}, {standing['baseline']:.3f})",
            f"{part['passes'] / whole['passes']:.2f}",
            f"{part['cpu'] / whole['cpu']:.2f}",
            *(f"{one['wall']:.0f} ({one['estimate']:.0f})" for one in (whole, part)),
            f"{whole['certified']}, {part['certified']}",
            f"{row['same']} of {row['sizes']} sizes",
            f"{statistics.mean(drops):.2f} ({min(drops):.2f} to {max(drops):.2f}); the certified cut "
            f"{row['chosen'][0]:.2f} +- {row['chosen'][1]:.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    taken = [one["wall"] / one["estimate"] for row in rows for one in (row["whole"], row["part"])]
    sentence = (
        f"Time taken over time estimated: {statistics.median(taken):.2f} ({min(taken):.2f} to "
        f"{max(taken):.2f}). {document['basis']}"
    )
    return "\n".join([*lines, "", sentence])


def main() -> None:
    """Measure, or show what was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default="zoo:masked,zoo:causal")
    parser.add_argument("--tasks", default="polarity")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--choose", type=int, default=1_000)
    parser.add_argument("--unseen", type=int, default=1_000)
    parser.add_argument("--train", type=int, default=3_000)
    parser.add_argument("--store")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--load", type=Path)
    parser.add_argument("--markdown", type=Path)
    given = parser.parse_args()
    if given.load is None:
        import torch

        sizes = {name: getattr(given, name) for name in ("choose", "unseen", "train", "store")}
        rows = measure(
            given.models.split(","), given.tasks.split(","), [int(s) for s in given.seeds.split(",")], **sizes
        )
        basis = (
            f"{given.choose:,} examples choose, as many certify, {given.unseen:,} are unseen; margin "
            f"{MARGIN:g} points. {platform.machine()}, cpu, {torch.get_num_threads()} threads, torch "
            f"{torch.__version__}, Python {platform.python_version()}."
        )
        document = {"rows": rows, "basis": basis}
        if given.json is not None:
            given.json.write_text(json.dumps(document, indent=1) + "\n")
    else:
        document = json.loads(given.load.read_text())
    text = tables(document)
    print(text)
    if given.markdown is not None:
        page = given.markdown.read_text()
        before, rest = page.split(MARKS[0])
        after = rest.split(MARKS[1])[1]
        given.markdown.write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{after}")


if __name__ == "__main__":
    main()
