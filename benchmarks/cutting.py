"""What can be cut out of fine-tuned models, and does the similarity of their layers predict it?

For each task, models that were fine-tuned with several seeds are cut after each layer (with the tuned head,
with heads tuned further, and on the encoder before tuning), and every span of their blocks is skipped. Maps
of the layers' similarity on the same examples then say whether any measure predicts what a span costs. Run
it as

    python benchmarks/cutting.py --base MODEL --run sst2=DIR,DIR,DIR --run stsb=DIR,DIR,DIR \
        --data sst2=SST-2 --data stsb=STS-B --store STORE --json cutting.json --figures figures

and put the tables into a page with

    python benchmarks/cutting.py --load cutting.json --markdown docs/surgery.md
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MARKS = {name: (f"<!-- {name} -->", f"<!-- /{name} -->") for name in ("truncation", "spans", "prediction")}
ROWS = 1_500  # at most: the first tokens of as many examples, or words drawn from all
MEASURES = (
    "debiased_cka",
    "linear_cka",
    "rbf_cka",
    "svcca",
    "cca",
    "neuron_correlation",
    "mixed_regression",
    "linear_regression:estimator=cross_validated:ridge=0.1",
    "rsa",
    "procrustes",
    "mutual_knn",
)


def measure(
    *,
    base: str,
    runs: dict[str, list[str]],
    data: dict[str, str],
    held_out: dict[str, int],
    train_size: int | None,
    store: str,
    figures: Path | None,
    threads: int | None,
    device: str,
) -> dict[str, Any]:
    """
    Cut every model and compare its layers.

    Returns
    -------
    dict
        Documents of all results.
    """
    import torch
    from predictive_validity import Case, predictive_validity

    import microtome as mt
    from microtome.figures.panels import save_figures

    if threads is not None:
        torch.set_num_threads(threads)
    found: dict[str, Any] = {"truncation": {}, "skipping": {}}
    cases = []
    for name, folders in runs.items():
        task = mt.task(name, data=data.get(name))
        if name in held_out:
            task = mt.held_out(task, held_out[name])
        cut = mt.truncate(folders, task, base=base, train_size=train_size, store=store, device=device)
        skipped = mt.skip(folders, task, store=store, device=device)
        found["truncation"][name], found["skipping"][name] = cut.document(), skipped.document()
        if figures is not None:
            for result, what in ((cut, "truncation"), (skipped, "skipping")):
                save_figures(result, figures / f"{name}-{what}", formats=("svg",))
        texts = _texts(task.split(task.validation))
        for place, folder in enumerate(folders):
            print(f"{name}: {folder}", flush=True)
            encoder = mt.load(folder, name=f"{name}{place}", device=device)
            rows = "word" if task.kind == "tagging" else "cls"
            sample = ROWS if rows == "word" else min(ROWS, len(texts))
            maps = mt.compare([encoder], on=texts, rows=rows, sample=sample, measures=MEASURES, store=store)
            spans = skipped.spans[1 + place] if len(folders) > 1 else skipped.spans[0]
            similarity = {measure: one.values for measure, one in maps.items()}
            cases.append(Case(model="MiniLM", task=name, seed=place + 1, cost=spans, similarity=similarity))
    found["prediction"] = predictive_validity(cases).document()
    where = torch.cuda.get_device_name() if device == "cuda" else f"{torch.get_num_threads()} threads"
    found["machine"] = (
        f"{platform.machine()}, {where}, torch {torch.__version__}, Python {platform.python_version()}"
    )
    return found


def _texts(split: Any) -> Any:
    """The examples that were scored: one text or a pair each, or a sentence in words."""
    from microtome.corpora.examples import Example

    return [
        Example(id=item.id, words=item.words)
        if item.words
        else Example(id=item.id, text=item.texts[0], pair=item.texts[1] if len(item.texts) > 1 else None)
        for item in split
    ]


def truncation_table(found: dict[str, Any]) -> str:
    """A line a task and arm, a column a layer."""
    parts = []
    for name, one in found["truncation"].items():
        first = one["curves"][0]
        head = " | ".join(str(x) for x in first["x"])
        lines = [
            f"**{name}** ({one['score']}, {first['n']:,} examples, {first['seeds'][0]} seeds; majority "
            f"baseline {one['lines'].get('majority baseline', 0):.3f})",
            "",
            f"| arm | {head} |",
            f"| --- |{' --- |' * len(first['x'])}",
        ]
        for curve in one["curves"]:
            cells = [
                "" if value is None else f"{value:.3f} [{low:.3f}, {high:.3f}]"
                for value, low, high in zip(
                    curve["values"], curve["band_low"], curve["band_high"], strict=True
                )
            ]
            lines.append(f"| {curve['name']} | {' | '.join(cells)} |")
        parts += [*lines, "", *(f"- {sentence}" for sentence in one["findings"]), ""]
    return "\n".join(parts).rstrip()


def span_table(found: dict[str, Any]) -> str:
    """First skipped block down, last one across, costs in points."""
    parts = []
    for name, one in found["skipping"].items():
        spans = one["spans"][0]
        depth = spans["depth"]
        lines = [
            f"**{name}**: points of {one['score']} lost (whole model {spans['full']:.3f}, {spans['n']:,} "
            f"examples, {spans['seeds']} seeds; * not 0 by the band of all spans)",
            "",
            f"| first \\ last | {' | '.join(str(k + 1) for k in range(depth))} |",
            f"| --- |{' --- |' * depth}",
        ]
        for row in range(depth):
            cells = []
            for column in range(depth):
                value = spans["values"][row][column]
                low, high = spans["band_low"][row][column], spans["band_high"][row][column]
                sure = low is not None and (low > 0 or high < 0)
                cells.append("" if value is None else f"{one['points'] * value:.1f}{'*' if sure else ''}")
            lines.append(f"| {row + 1} | {' | '.join(cells)} |")
        parts += [*lines, "", *(f"- {sentence}" for sentence in one["findings"]), ""]
    return "\n".join(parts).rstrip()


def prediction_table(found: dict[str, Any]) -> str:
    """A line a measure, by its partial effect."""
    one = found["prediction"]
    table = one["more"]["measures"]

    def cell(effect: Any) -> str:
        if effect["mean"] is None:
            return ""
        said = f"{effect['mean']:.2f}"
        return said if effect["low"] is None else f"{said} [{effect['low']:.2f}, {effect['high']:.2f}]"

    lines = [
        "| measure | Spearman with cost | beyond length and depth | gain out of task |",
        "| --- | --- | --- | --- |",
    ]
    lines += [
        f"| {name} | {cell(table[name]['spearman'])} | {cell(table[name]['partial'])} | "
        f"{cell(table[name]['gain_out_of_task'])} |"
        for name in one["more"]["ranking"]
    ]
    # Sentences on single measures say what the table says.
    said = [each for each in one["findings"] if not each.startswith(tuple(f"{name}:" for name in table))]
    return "\n".join([*lines, "", *(f"- {sentence}" for sentence in said), "", found["machine"] + "."])


def _pairs(given: Sequence[str]) -> dict[str, str]:
    return {name: value for name, _, value in (one.partition("=") for one in given)}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="What can be cut, and what predicts it.")
    parser.add_argument("--base")
    parser.add_argument("--run", action="append", default=[], metavar="TASK=DIR,DIR")
    parser.add_argument("--data", action="append", default=[], metavar="TASK=DIR")
    parser.add_argument("--held-out", action="append", default=[], metavar="TASK=N")
    parser.add_argument("--train-size", type=int, help="examples that heads are trained on")
    parser.add_argument("--store")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--figures", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--load", type=Path, help="results of an earlier run")
    parser.add_argument("--markdown", type=Path, help="a page with the marks")
    chosen = parser.parse_args(arguments)
    if chosen.load is None:
        found = measure(
            base=chosen.base,
            runs={name: value.split(",") for name, value in _pairs(chosen.run).items()},
            data=_pairs(chosen.data),
            held_out={name: int(value) for name, value in _pairs(chosen.held_out).items()},
            train_size=chosen.train_size,
            store=chosen.store,
            figures=chosen.figures,
            threads=chosen.threads,
            device=chosen.device,
        )
    else:
        found = json.loads(chosen.load.read_text())
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(found))
    tables = {
        "truncation": truncation_table(found),
        "spans": span_table(found),
        "prediction": prediction_table(found),
    }
    for name, table in tables.items():
        print(table, end="\n\n")
        if chosen.markdown is not None:
            opening, closing = MARKS[name]
            before, _, rest = chosen.markdown.read_text().partition(opening)
            after = rest.partition(closing)[2]
            chosen.markdown.write_text(f"{before}{opening}\n\n{table}\n\n{closing}{after}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
