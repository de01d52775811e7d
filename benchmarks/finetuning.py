"""What does the training loop cost beside a bare one, and what does sorting by length save?

The bare loop is what one would write by hand: the same model, the same batches already on the device, AdamW,
clipping and a linear schedule, nothing else. Both make the same updates in turn, round after round; the ratio
of their times is the overhead of tokenized batches, seeds, logs and progress. Run it as

    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/finetuning.py --rounds 5
"""

from __future__ import annotations

import argparse
import copy
import json
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from microtome.encoders.library import quiet
from microtome.randomness import generator

WORDS = 2_000
MARKS = ("<!-- loop -->", "<!-- /loop -->")


def encoder(folder: Path, width: int, layers: int) -> Any:
    """A BERT of this shape with drawn weights and a vocabulary of made-up words."""
    import transformers

    import microtome as mt

    folder.mkdir(parents=True, exist_ok=True)
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(WORDS))]
    (folder / "vocab.txt").write_text("\n".join(names))
    config = transformers.BertConfig(
        vocab_size=len(names),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=max(1, width // 64),
        intermediate_size=4 * width,
    )
    with quiet():
        transformers.BertModel(config).save_pretrained(folder)
    return mt.load(folder)


def task(examples: int, longest: int) -> Any:
    """Texts of uneven lengths, as those of real tasks are."""
    from microtome.tasks.task import Item, Split, Task

    rng = generator(0, "texts")
    lengths = (3 + (longest - 5) * rng.beta(1.2, 4.0, size=examples)).astype(int)
    items = tuple(
        Item(
            id=str(place),
            texts=(" ".join(f"w{i}" for i in rng.integers(WORDS, size=length)),),
            target=int(rng.integers(2)),
        )
        for place, length in enumerate(lengths)
    )
    split = Split(name="train", items=items)
    return Task(
        name="made",
        title="Made-up texts",
        kind="classification",
        labels=("0", "1"),
        scores=("accuracy",),
        main=("accuracy",),
        readers={"train": lambda: split, "validation": lambda: split},
        source="memory",
    )


def bare(model: Any, batches: Sequence[dict[str, Any]], recipe: Any) -> None:
    """What one would write by hand."""
    import torch

    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=recipe.rate, weight_decay=recipe.decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: 1 - k / len(batches))
    model.train()
    for batch in batches:
        loss = model.loss(model(batch), batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, recipe.clip)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()


def measure(
    *,
    width: int = 256,
    layers: int = 4,
    updates: int = 40,
    batch: int = 16,
    rounds: int = 5,
    device: str = "cpu",
) -> dict[str, Any]:
    """
    Time the loop beside the bare one, with random batches and with batches of like length.

    Returns
    -------
    dict
        Medians over rounds, in seconds and as ratios.
    """
    import tempfile

    import torch

    from microtome.training.inputs import collate, encode
    from microtome.training.models.modeling import build
    from microtome.training.optimization.loop import TrainingRecords, train
    from microtome.training.optimization.updates import example_batches
    from microtome.training.precision import make_accelerator
    from microtome.training.recipe import find_recipe

    if device == "cpu":
        torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        base = encoder(Path(place) / "model", width, layers)
    made = task(updates * batch, 128)
    features = encode(made.split("train").items, made, base.tokenizer, longest=128)
    model = build(base, made, seed=0).to(device)
    accelerator = make_accelerator(device, "float32")
    recipe = find_recipe("devlin2019", batch=batch, steps=updates, bias_correction=True)
    sorted_recipe = find_recipe(recipe, bucket=True, steps=updates)

    def batches(chosen: Any) -> list[dict[str, Any]]:
        order = example_batches([len(f) for f in features], batch=batch, seed=0, bucket=chosen.bucket)
        return [collate([features[i] for i in next(order)], torch.device(device)) for _ in range(updates)]

    def ours(chosen: Any) -> Callable[[], object]:
        return lambda: train(
            copy.deepcopy(model),
            features,
            lambda part: collate(part, torch.device(device)),
            chosen,
            seed=0,
            accelerator=accelerator,
            records=TrainingRecords(),
        )

    calls: dict[str, Callable[[], object]] = {}
    for name, chosen in (("random", recipe), ("like length", sorted_recipe)):
        ready = batches(chosen)
        calls[f"bare, {name}"] = lambda ready=ready: bare(copy.deepcopy(model), ready, recipe)
        calls[f"loop, {name}"] = ours(chosen)
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if device != "cpu":
                torch.cuda.synchronize()
            if turn:  # the first round warms up
                seconds[name].append(time.perf_counter() - start)
    found = {name: statistics.median(values) for name, values in seconds.items()}
    lengths = [len(f) for f in features]
    return {
        "shape": {"width": width, "layers": layers, "batch": batch, "updates": updates},
        "device": device if device == "cpu" else torch.cuda.get_device_name(0),
        "rounds": rounds,
        "machine": f"{device} with {torch.get_num_threads()} thread, torch {torch.__version__}, Python "
        f"{platform.python_version()}",
        "seconds": found,
        "overhead": {
            name: found[f"loop, {name}"] / found[f"bare, {name}"] for name in ("random", "like length")
        },
        "saved": found["loop, random"] / found["loop, like length"],
        "padding": {
            name: _padded(lengths, chosen, batch) / sum(lengths)
            for name, chosen in (("random", recipe), ("like length", sorted_recipe))
        },
    }


def _padded(lengths: Sequence[int], recipe: Any, batch: int) -> int:
    from microtome.training.optimization.updates import one_pass

    found = one_pass(lengths, batch=batch, seed=0, epoch=0, bucket=recipe.bucket)
    return sum(len(one) * max(lengths[i] for i in one) for one in found)


def markdown(found: dict[str, Any]) -> str:
    """Write the figures as a table, with what they were measured on."""
    shape, padding = found["shape"], found["padding"]
    lines = ["| batches | loop : bare loop | padded tokens for each real one |", "| --- | --- | --- |"]
    lines += [f"| {name} | {found['overhead'][name]:.3f} | {padding[name]:.2f} |" for name in padding]
    return "\n".join(
        [
            *lines,
            "",
            f"Sorting by length makes the loop {found['saved']:.2f} times faster. BERT of {shape['layers']} "
            f"blocks of width {shape['width']}, batches of {shape['batch']}, {shape['updates']} updates a "
            f"call, medians over {found['rounds']} rounds, {found['machine']}.",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The training loop beside a bare one.")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path, help="a page with the marks")
    chosen = parser.parse_args(arguments)
    options = {name: value for name, value in vars(chosen).items() if name not in ("json", "markdown")}
    found = measure(**options)
    for name, ratio in found["overhead"].items():
        print(f"{name} batches: {ratio:.3f} times the bare loop (promised: at most 1.05)")
    padding = found["padding"]
    print(
        f"like lengths together: {found['saved']:.2f} times faster; padded tokens fall from "
        f"{padding['random']:.2f} to {padding['like length']:.2f} for each real one"
    )
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(found, indent=1))
    if chosen.markdown is not None:
        before, _, rest = chosen.markdown.read_text().partition(MARKS[0])
        after = rest.partition(MARKS[1])[2]
        chosen.markdown.write_text(f"{before}{MARKS[0]}\n\n{markdown(found)}\n\n{MARKS[1]}{after}")
    return int(max(found["overhead"].values()) > 1.05)


if __name__ == "__main__":
    raise SystemExit(main())
