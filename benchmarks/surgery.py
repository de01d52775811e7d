"""What does it cost to look at every cut of a model, and what does a cut save?

Five ratios, each of two ways to do the same thing, taken in turns in one run on a model of BERT-base's shape
with drawn weights (weights do not matter for time):

- the scores of all truncations with the tuned head, to one evaluation of the whole model;
- heads of all layers trained together on kept states, to one head trained with the encoder in the loop;
- the scores of all 78 spans, to a loop over really cut models;
- the backward pass with the lower half and the embeddings frozen, to that with nothing frozen;
- the encoder time of an exported model with blocks removed, to what their share says.

Run it as

    python benchmarks/surgery.py --threads 2 --rounds 3 --json surgery.json --markdown docs/surgery.md
"""

from __future__ import annotations

import argparse
import copy
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from finetuning import encoder as drawn_encoder
from finetuning import task as made_task

MARKS = ("<!-- costs -->", "<!-- /costs -->")
PROMISED = {
    "truncations": 1.1,
    "heads": 2.0,
    "spans": 0.6,
    "freezing": 0.55,
    "export": 0.10,
}


def ratios(
    first: Callable[[], object], second: Callable[[], object], rounds: int, device: str
) -> list[float]:
    """Seconds of the first call over those of the second, in turns; the first turn warms up."""
    found = []
    for turn in range(rounds + 1):
        times = []
        for call in (first, second) if turn % 2 else (second, first):
            _wait(device)
            start = time.perf_counter()
            call()
            _wait(device)
            times.append(time.perf_counter() - start)
        one, two = times if turn % 2 else reversed(times)
        if turn:
            found.append(one / two)
    return found


def _wait(device: str) -> None:
    if device != "cpu":
        import torch

        torch.cuda.synchronize()


class Case:
    """A tuned model and the examples it is looked at with: owns the weights."""

    def __init__(self, place: Path, *, width: int, layers: int, examples: int, longest: int, device: str):
        from microtome.training.inputs import encode
        from microtome.training.models.modeling import build

        self.device = device
        self.task = made_task(examples, longest)
        self.encoder = drawn_encoder(place / "model", width, layers)
        self.split = self.task.split("train")
        self.model = build(self.encoder, self.task, seed=0).to(device).eval()
        self.tokenizer = self.encoder.tokenizer
        self.features = encode(self.split.items, self.task, self.tokenizer, longest=longest)
        self.layers, self.longest = layers, longest

    def predict(self, model: Any) -> Any:
        from microtome.training.cuts import predict

        return predict(model, self.split, self.task, self.tokenizer, longest=self.longest)

    def cuts(self, cuts: Sequence[tuple[int, ...]]) -> Any:
        from microtome.training.cuts import predict_cuts

        return predict_cuts(self.model, self.split, self.task, self.tokenizer, cuts, longest=self.longest)

    def cut(self, kept: Sequence[int]) -> Any:
        from microtome.encoders.cutting import keep_blocks

        # The weights are shared: 78 copies of them would not fit into memory.
        made = copy.deepcopy(self.model, {id(weight): weight for weight in self.model.parameters()})
        keep_blocks(made.net, made.family, kept)
        return made


def truncations(case: Case, rounds: int) -> list[float]:
    from microtome.training.cuts import every_truncation

    cuts = list(every_truncation(case.layers).values())
    return ratios(lambda: case.cuts(cuts), lambda: case.predict(case.model), rounds, case.device)


def spans(case: Case, rounds: int) -> list[float]:
    from microtome.training.cuts import every_span

    cuts = list(every_span(case.layers).values())
    # Cut beforehand: the loop is not charged with copying.
    models = [case.cut(cut) for cut in cuts]

    def loop() -> None:
        for model in models:
            case.predict(model)

    return ratios(lambda: case.cuts(cuts), loop, rounds, case.device)


def heads(case: Case, rounds: int, epochs: int = 3) -> list[float]:
    import torch

    from microtome.training.heads.head_inputs import head_rows
    from microtome.training.heads.layer_heads import train_heads
    from microtome.training.inputs import collate
    from microtome.training.models.methods import trainable
    from microtome.training.optimization.loop import train
    from microtome.training.precision import make_accelerator
    from microtome.training.recipe import find_recipe

    recipe = find_recipe("devlin2019", epochs=epochs, batch=16)
    accelerator = make_accelerator(case.device, "float32")

    def all_heads() -> None:
        train_heads(case.model, head_rows(case.model, case.features), recipe, seeds=(0,))

    def one_head() -> None:
        model = copy.deepcopy(case.model)
        trainable(model, "head")
        train(
            model,
            case.features,
            lambda part: collate(part, torch.device(case.device)),
            recipe,
            seed=0,
            accelerator=accelerator,
        )

    return ratios(all_heads, one_head, rounds, case.device)


def freezing(case: Case, rounds: int) -> list[float]:
    """The backward pass alone, on one batch of the longest examples."""
    import torch

    from microtome.interventions.applying import apply
    from microtome.interventions.blocks import Freeze, frozen_names
    from microtome.training.inputs import collate
    from microtome.training.models.methods import trainable

    chosen = sorted(case.features, key=lambda one: -len(one))[:16]
    batch = collate(chosen, torch.device(case.device))
    half = frozen_names(apply(case.encoder, Freeze(bottom=case.layers // 2)))
    model = copy.deepcopy(case.model).train()

    def backward(frozen: frozenset[str]) -> float:
        trainable(model, "full", frozen=frozen)
        model.zero_grad(set_to_none=True)
        loss = model.loss(model(batch), batch)
        _wait(case.device)
        start = time.perf_counter()
        loss.backward()
        _wait(case.device)
        return time.perf_counter() - start

    found = []
    for turn in range(3 * rounds + 1):
        one, two = backward(half), backward(frozenset())
        if turn:
            found.append(one / two)
    return found


def export(case: Case, place: Path, rounds: int, removed: int) -> tuple[list[float], float]:
    """Encoder time of a saved and reloaded cut model, and the share of blocks that are left."""
    import torch
    import transformers

    from microtome.training.inputs import collate
    from microtome.training.models.saving import save

    folder = save(case.cut(range(1, case.layers - removed + 1)), place / f"cut-{removed}", case.tokenizer)
    small = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval().to(case.device)
    whole: Any = case.model.net
    chosen = sorted(case.features, key=lambda one: -len(one))[:32]
    batch = collate(chosen, torch.device(case.device))
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}

    def run(net: Any) -> Callable[[], object]:
        def call() -> None:
            with torch.inference_mode():
                for _ in range(3):
                    net.base_model(**inputs)

        return call

    found = ratios(run(small), run(whole), 3 * rounds, case.device)
    return found, (case.layers - removed) / case.layers


def measure(
    *,
    width: int = 768,
    layers: int = 12,
    examples: int = 128,
    longest: int = 64,
    rounds: int = 3,
    threads: int | None = None,
    device: str = "cpu",
) -> dict[str, Any]:
    """
    Take all ratios.

    Returns
    -------
    dict
        For each its values over rounds, and what was promised.
    """
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        case = Case(place, width=width, layers=layers, examples=examples, longest=longest, device=device)
        found = {
            "truncations": truncations(case, rounds),
            "heads": heads(case, rounds),
            "freezing": freezing(case, rounds),
        }
        exported = []
        for removed in sorted({layers // 4, layers // 2, 3 * layers // 4}):
            values, share = export(case, place, rounds, removed)
            exported.append({"removed": removed, "share": share, "ratios": values})
        found["spans"] = spans(case, rounds)
    return {
        "shape": {"width": width, "layers": layers, "examples": examples, "longest": longest},
        "rounds": rounds,
        "machine": f"{device if device == 'cpu' else torch.cuda.get_device_name(0)}, "
        f"{torch.get_num_threads()} threads, torch {torch.__version__}, Python {platform.python_version()}",
        "ratios": found,
        "export": exported,
    }


def shown(found: dict[str, Any]) -> list[tuple[str, float, float, float, str, bool]]:
    """What was measured, median, smallest, largest, what was promised, and whether it was kept."""
    said = {
        "truncations": "all truncations, to one evaluation",
        "heads": "heads of all layers, to one head with the frozen encoder in the loop",
        "spans": "all spans, to a loop over really cut models",
        "freezing": "backward pass with the lower half and the embeddings frozen, to nothing frozen",
    }
    rows = []
    for name, words in said.items():
        values = found["ratios"][name]
        middle = statistics.median(values)
        rows.append(
            (words, middle, min(values), max(values), f"<= {PROMISED[name]:g}", middle <= PROMISED[name])
        )
    for one in found["export"]:
        middle, share = statistics.median(one["ratios"]), one["share"]
        low, high = min(one["ratios"]), max(one["ratios"])
        rows.append(
            (
                f"encoder time of an exported model without {one['removed']} blocks, to the whole",
                middle,
                low,
                high,
                f"{share:.2f} +- 10 %",
                abs(middle / share - 1) <= PROMISED["export"],
            )
        )
    return rows


def markdown(found: dict[str, Any]) -> str:
    """Write the ratios as a table, with what they were measured on."""
    shape = found["shape"]
    lines = ["| what, to what | ratio | smallest to largest | promised |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {words} | {middle:.2f} | {low:.2f} to {high:.2f} | {promise}{'' if kept else ' (missed)'} |"
        for words, middle, low, high, promise, kept in shown(found)
    ]
    lines += [
        "",
        f"BERT of {shape['layers']} blocks of width {shape['width']} with drawn weights, {shape['examples']} "
        f"made-up texts of up to {shape['longest']} tokens; medians over {found['rounds']} rounds in turns "
        f"(three times as many for single batches); {found['machine']}.",
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="What cuts cost and save.")
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--examples", type=int, default=128)
    parser.add_argument("--longest", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--load", type=Path, help="ratios of an earlier run")
    parser.add_argument("--markdown", type=Path, help="a page with the marks")
    chosen = vars(parser.parse_args(arguments))
    kept, page, known = chosen.pop("json"), chosen.pop("markdown"), chosen.pop("load")
    found = measure(**chosen) if known is None else json.loads(known.read_text())
    for words, middle, low, high, promise, held in shown(found):
        print(
            f"{words}: {middle:.3f} [{low:.3f}, {high:.3f}], promised {promise}{'' if held else ': MISSED'}"
        )
    if kept is not None:
        kept.write_text(json.dumps(found, indent=1))
    if page is not None:
        before, _, rest = page.read_text().partition(MARKS[0])
        after = rest.partition(MARKS[1])[2]
        page.write_text(f"{before}{MARKS[0]}\n\n{markdown(found)}\n\n{MARKS[1]}{after}")
    return int(not all(row[-1] for row in shown(found)))


if __name__ == "__main__":
    raise SystemExit(main())
