"""What does it cost to have the states of all layers, with this package and with what a user would write?

A model of the shape of BERT-base with random weights reads generated sentences in batches of 32 on one
thread; wanted are the states of all tokens that are not special, of every layer, as arrays. Each way runs in
a process of its own, in turn, round after round: CPU seconds and the growth of the process's memory, after
one batch to warm up. The ways agree within rounding, else the command fails. Packages that are not installed
are left out. Run it as

    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/extraction_peers.py --rounds 3
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from compare_speed import save_models, sentences
from engine import Table

BATCH = 32
AGREE = 1e-4  # the largest difference from the states of the stock model, relative to their size
MARKS = ("<!-- extraction peers -->", "<!-- /extraction peers -->")


def stock(folder: Path) -> Any:
    """`output_hidden_states`, a loop over batches, and the rows of real tokens."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    model, tokenizer = (
        AutoModel.from_pretrained(folder).eval(),
        AutoTokenizer.from_pretrained(folder, pad_token="[PAD]"),
    )

    def states(inputs: Any) -> list[Any]:
        with torch.no_grad():
            return list(model(**inputs, output_hidden_states=True).hidden_states)

    return _looping(tokenizer, states)


def nnsight(folder: Path) -> Any:
    """A trace that saves the output of every block."""
    import nnsight as library  # pyright: ignore[reportMissingImports]
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, pad_token="[PAD]")
    model: Any = library.NNsight(AutoModel.from_pretrained(folder).eval())

    def states(inputs: Any) -> list[Any]:
        with torch.no_grad(), model.trace(**inputs):
            saved = library.save([model.embeddings.output, *(layer.output for layer in model.encoder.layer)])
        return [value[0] if isinstance(value, tuple) else value for value in saved]

    return _looping(tokenizer, states)


def transformer_lens(folder: Path) -> Any:
    """A run with a cache of the residual stream."""
    import torch
    from transformer_lens.model_bridge import (  # pyright: ignore[reportMissingImports]
        TransformerBridge,
    )
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, pad_token="[PAD]")
    model: Any = TransformerBridge.boot_transformers(
        str(folder), hf_model=AutoModelForMaskedLM.from_pretrained(folder), tokenizer=tokenizer, device="cpu"
    ).eval()
    names = [f"blocks.{block}.hook_out" for block in range(12)]
    first = "blocks.0.hook_in"

    def states(inputs: Any) -> list[Any]:
        with torch.no_grad():
            _, cache = model.run_with_cache(
                inputs["input_ids"],
                attention_mask=inputs["attention_mask"],
                token_type_ids=inputs["token_type_ids"],
                names_filter=lambda name: name == first or name in names,
            )
        return [cache[first], *(cache[name] for name in names)]

    return _looping(tokenizer, states)


def _looping(tokenizer: Any, states: Callable[[Any], list[Any]]) -> Any:
    special = {tokenizer.convert_tokens_to_ids(token) for token in ("[PAD]", "[CLS]", "[SEP]")}

    def rows(lines: Sequence[str]) -> list[np.ndarray]:
        parts: list[list[np.ndarray]] = []
        for start in range(0, len(lines), BATCH):
            texts = list(lines[start : start + BATCH])
            inputs = tokenizer(texts, padding=True, return_tensors="pt", return_token_type_ids=True)
            kept = np.isin(inputs["input_ids"].numpy(), list(special), invert=True)
            parts.append([layer.numpy()[kept] for layer in states(inputs)])
        return [np.concatenate(layer) for layer in zip(*parts, strict=True)]

    return rows


def microtome(folder: Path) -> Any:
    """`extract`, into a store on the disk, whose arrays are mapped."""
    import microtome as package

    encoder = package.load(folder)
    place = tempfile.mkdtemp()

    def rows(lines: Sequence[str]) -> Any:
        return package.extract(encoder, on=list(lines), rows="token", store=place).layers

    return rows


WAYS: Mapping[str, Callable[[Path], Any]] = {
    "stock model, output_hidden_states": stock,
    "nnsight": nnsight,
    "TransformerLens": transformer_lens,
    "microtome, extract to the disk": microtome,
}


def work(name: str, folder: Path, count: int, states: Path) -> None:
    """Run one way in this process and print its cost."""
    rows, lines = WAYS[name](folder), sentences(count)
    rows(lines[:BATCH])
    before = _memory()
    start = time.process_time()
    found = rows(lines)
    seconds = time.process_time() - start
    # The largest resident memory of the process is that of the run, since loading takes less.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    np.savez(states, *(np.asarray(found[layer]) for layer in (0, 6, 12)))
    print(json.dumps({"seconds": seconds, "grown": peak - before, "rows": len(found[0])}))


def _memory() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(rounds: int, count: int) -> dict[str, Any]:
    """Run every way in turn; its figures, and its largest difference from the stock model."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        (folder,) = save_models(Path(place), sentences(count), "base", count=1)
        for _ in range(rounds):
            for name in WAYS:
                states = Path(place) / f"{name}.npz"
                command = [sys.executable, __file__, "--way", name, "--folder", str(folder)]
                command += ["--sentences", str(count), "--states", str(states)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    found[name] = {"missing": done.stderr.strip().splitlines()[-1]}
                    continue
                record = json.loads(done.stdout.splitlines()[-1])
                figures = found.setdefault(name, {"seconds": [], "grown": [], "rows": record["rows"]})
                figures["seconds"].append(record["seconds"])
                figures["grown"].append(record["grown"])
        reference = np.load(Path(place) / f"{next(iter(WAYS))}.npz")
        for name, figures in found.items():
            if "missing" not in figures:
                other = np.load(Path(place) / f"{name}.npz")
                figures["difference"] = max(
                    float(np.abs(other[key] - reference[key]).max() / np.abs(reference[key]).max())
                    for key in reference
                )
    return found


def tables(found: Mapping[str, Any], rounds: int, count: int) -> list[Table]:
    """Write the figures as a table."""
    present = {name: figures for name, figures in found.items() if "missing" not in figures}
    unit = next(iter(present.values()))
    rows = []
    for name, figures in present.items():
        ratios = [one / other for one, other in zip(figures["seconds"], unit["seconds"], strict=True)]
        grown = statistics.median(figures["grown"]) / 1e6
        rows.append((name, f"{statistics.median(ratios):.2f}", f"{grown:.0f} MB"))
    absent = "".join(f" {name} did not run: {v['missing']}." for name, v in found.items() if "missing" in v)
    size = unit["rows"] * 13 * 768 * 4 / 1e6
    return [
        Table(
            title="All layers of BERT-base as arrays",
            header=("way", "CPU time", "memory beyond the model"),
            rows=tuple(rows),
            note=f"{count} generated sentences, {unit['rows']:,} rows a layer ({size:.0f} MB in all), one "
            f"thread, medians of {rounds} rounds in turn; time as ratio to the stock model.{absent}",
        )
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The states of all layers, by this package and by others.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=160)
    parser.add_argument("--markdown", type=Path, help="a page with the marks")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--states", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.way is not None:
        work(chosen.way, chosen.folder, chosen.sentences, chosen.states)
        return 0
    found = measure(chosen.rounds, chosen.sentences)
    text = "\n\n".join(t.markdown() for t in tables(found, chosen.rounds, chosen.sentences))
    print(text)
    if chosen.markdown is not None:
        before, _, rest = chosen.markdown.read_text().partition(MARKS[0])
        after = rest.partition(MARKS[1])[2]
        chosen.markdown.write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{after}")
    return int(any(figures.get("difference", 0) > AGREE for figures in found.values()))


if __name__ == "__main__":
    raise SystemExit(main())
