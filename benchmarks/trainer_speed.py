"""How many updates a second does fine-tuning make on a GPU, beside the Trainer of transformers?

Models of the shape of BERT learn SST-2 in batches of 32, with AdamW and clipping, in bfloat16: here with CUDA
graphs, there with the fused AdamW and the defaults of the Trainer. Both get the same token ids and make the
same number of updates, in turn, round after round; what each spends before its first update, such as
capturing graphs, counts. The floor is what no implementation can avoid: the arithmetic of the linear layers
on padded tokens at the speed of a large matrix product, and what AdamW reads and writes at the speed of a
large copy. With `--model`, a checkpoint is fine-tuned with both, and the scores are compared. Run it as

    PYTHONPATH=src python benchmarks/trainer_speed.py --data DIR --tokenizer FOLDER --json trainer.json
    PYTHONPATH=src python benchmarks/trainer_speed.py --load trainer.json --markdown docs/performance.md
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine import Table

BATCH = 32
MARKS = ("<!-- trainer -->", "<!-- /trainer -->")
BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
CASES: Mapping[str, tuple[Mapping[str, Any], int | None, int]] = {
    "base, lengths of SST-2": (BASE, None, 600),
    "base, 128 tokens": (BASE, 128, 300),
    "large, lengths of SST-2": (LARGE, None, 300),
}


def made_encoder(folder: Path, sizes: Mapping[str, Any]) -> Any:
    """An encoder of a shape with random weights, and the tokenizer of a folder."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertModel

    from microtome.encoders.encoder import Source, TransformerEncoder
    from microtome.encoders.families.bert import BERT
    from microtome.encoders.loading import load

    tokenizer = load(folder).tokenizer  # pyright: ignore[reportAttributeAccessIssue]
    torch.manual_seed(0)
    model = BertModel(BertConfig(vocab_size=len(AutoTokenizer.from_pretrained(folder)), **sizes))
    return TransformerEncoder(
        name="random", family=BERT, model=model, tokenizer=tokenizer, source=Source(given="random weights")
    )


def features_of(encoder: Any, task: Any, tokens: int | None, count: int) -> list[Any]:
    """Encode sentences; with a number of tokens, several joined until each example has so many."""
    from dataclasses import replace

    from microtome.training.inputs import encode

    items = task.split("train").items
    if tokens is not None:
        size = len(items) // 12
        items = [
            replace(item, texts=(" ".join(items[place + k * size].texts[0] for k in range(12)) * 2,))
            for place, item in enumerate(items[:size])
        ]
    return encode(items[:count], task, encoder.tokenizer, longest=tokens or 128)


class Ours:
    """Fine-tuning by this package."""

    def __init__(self, encoder: Any, task: Any, features: list[Any]) -> None:
        from functools import partial

        from microtome.training.inputs import collate
        from microtome.training.models.modeling import build
        from microtome.training.optimization.cuda_graphs import LENGTHS
        from microtome.training.precision import make_accelerator

        self.model, self.features = build(encoder, task, seed=0).to("cuda"), features
        self.collate = partial(collate, multiple=LENGTHS, longest=128)
        self.accelerator = make_accelerator("cuda", "bfloat16")

    def train(self, updates: int) -> dict[str, float]:
        """Make updates; seconds of all, and updates a second in their second half."""
        from microtome.context import Context
        from microtome.training.optimization.loop import TrainingRecords, train
        from microtome.training.recipe import find_recipe

        moments: dict[int, float] = {}

        def report(_: str, done: int, __: int) -> None:
            moments[done] = time.perf_counter()

        course = train(
            self.model,
            self.features,
            self.collate,
            find_recipe("devlin2019", batch=BATCH, steps=updates, bias_correction=True),
            seed=0,
            accelerator=self.accelerator,
            records=TrainingRecords(context=Context(progress=report)),
            dtype="bfloat16",
        )
        assert course.launches == "as CUDA graphs", course.launches
        half = updates // 20 * 10
        return {"steady": (updates - half) / (moments[updates] - moments[half])}


class Stock:
    """Fine-tuning by the Trainer of transformers."""

    def __init__(self, encoder: Any, features: list[Any], tokenizer: Path, folder: str) -> None:
        import transformers

        self.folder = folder
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer)
        self.model = transformers.BertForSequenceClassification(encoder.model.config)
        self.rows = rows_of(features)

    def train(self, updates: int) -> dict[str, float]:
        """Make updates with the defaults of the Trainer."""
        stock_trainer(self.model, self.rows, self.tokenizer, self.folder, max_steps=updates).train()
        return {}


def rows_of(features: Sequence[Any]) -> list[dict[str, Any]]:
    """Examples as a Trainer takes them."""
    return [
        {
            "input_ids": feature.tokens[0].ids.tolist(),
            "token_type_ids": feature.tokens[0].types.tolist(),
            "attention_mask": [1] * len(feature),
            "labels": int(feature.targets["labels"]),
        }
        for feature in features
    ]


def stock_trainer(model: Any, rows: list[Any], tokenizer: Any, folder: str, **arguments: Any) -> Any:
    """A Trainer with fused AdamW and bfloat16, and the values of the recipe devlin2019."""
    import transformers

    settings = transformers.TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=BATCH,
        bf16=True,
        optim="adamw_torch_fused",
        learning_rate=2e-5,
        weight_decay=0.01,
        adam_epsilon=1e-6,
        warmup_steps=0.1,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        **arguments,
    )
    return transformers.Trainer(
        model=model,
        args=settings,
        train_dataset=rows,  # pyright: ignore[reportArgumentType]
        data_collator=transformers.DataCollatorWithPadding(tokenizer),
    )


def measure(task: Any, tokenizer: Path, rounds: int, scale: float) -> dict[str, Any]:
    """Time all cases; medians over rounds."""
    import torch

    cases = {}
    peaks = ceilings()
    for name, (sizes, tokens, count) in CASES.items():
        updates, encoder = max(20, int(scale * count) // 20 * 20), made_encoder(tokenizer, sizes)
        features = features_of(encoder, task, tokens, BATCH * updates)
        with tempfile.TemporaryDirectory() as folder:
            ways = {
                "ours": Ours(encoder, task, features),
                "trainer": Stock(encoder, features, tokenizer, folder),
            }
            rates: dict[str, list[float]] = {way: [] for way in ways}
            memory, steady = {}, []
            for turn in range(rounds + 1):
                for way, trained in ways.items():
                    torch.cuda.empty_cache()
                    torch.cuda.reset_peak_memory_stats()
                    torch.cuda.synchronize()
                    start = time.perf_counter()
                    found = trained.train(updates if turn else 40)
                    torch.cuda.synchronize()
                    if turn:  # the first round warms up
                        rates[way].append(updates / (time.perf_counter() - start))
                        steady += [found["steady"]] * ("steady" in found)
                        memory[way] = torch.cuda.max_memory_reserved()
        cases[name] = {
            "updates": updates,
            "rates": rates,
            "steady": steady,
            "memory": memory,
            "floor": floor_rate(ways["ours"].model, padded_tokens(features, updates), peaks),
        }
        print(name, json.dumps(cases[name]), flush=True)
        del ways
    return {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "rounds": rounds,
        "ceilings": peaks,
        "cases": cases,
    }


def padded_tokens(features: Sequence[Any], updates: int) -> float:
    """Tokens of a mean batch, padded to its longest example."""
    from microtome.training.optimization.updates import example_batches

    lengths = [len(feature) for feature in features]
    order = example_batches(lengths, batch=BATCH, seed=0)
    batches = [next(order) for _ in range(updates)]
    return statistics.mean(len(batch) * max(lengths[index] for index in batch) for batch in batches)


def ceilings() -> dict[str, float]:
    """Operations a second of a large product in bfloat16, and bytes a second of a large copy."""
    import torch

    left = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    source = torch.randn(2**28, device="cuda")
    target = torch.empty_like(source)

    def seconds(call: Any) -> float:
        spent = []
        for _ in range(12):
            torch.cuda.synchronize()
            start = time.perf_counter()
            call()
            torch.cuda.synchronize()
            spent.append(time.perf_counter() - start)
        return statistics.median(spent[2:])

    return {
        "operations": 2 * 8192**3 / seconds(lambda: left @ left),
        "bytes": 8 * 2**28 / seconds(lambda: target.copy_(source)),
    }


def floor_rate(model: Any, tokens: float, peaks: Mapping[str, float]) -> float:
    """Updates a second that arithmetic and the traffic of AdamW would allow."""
    linear = sum(weight.numel() for weight in model.base.encoder.parameters() if weight.ndim == 2)
    weights = sum(weight.numel() for weight in model.parameters())
    arithmetic = 6 * linear * tokens / peaks["operations"]
    # Read: weight, gradient and two averages; written: weight and averages.
    return 1 / (arithmetic + 28 * weights / peaks["bytes"])


def scores(model: Path, task: Any, seeds: Sequence[int], examples: int) -> dict[str, list[float]]:
    """Accuracy on the validation split after one epoch, of each seed, with both."""
    import numpy as np
    import transformers

    import microtome as mt
    from microtome.training.inputs import encode

    encoder: Any = mt.load(model)
    found: dict[str, list[float]] = {"ours": [], "trainer": []}
    validation = encode(task.split("validation").items, task, encoder.tokenizer, longest=128)
    train = encode(task.split("train").items[:examples], task, encoder.tokenizer, longest=128)
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            options: dict[str, Any] = {"epochs": 1, "batch": BATCH, "rate": 2e-5, "bias_correction": True}
            run = mt.finetune(
                encoder, task, seed=seed, train_size=examples, device="cuda", store=folder, **options
            )
            found["ours"].append(run.evaluation.score.value)
        with tempfile.TemporaryDirectory() as folder:
            transformers.set_seed(seed)
            net = transformers.AutoModelForSequenceClassification.from_pretrained(model)
            tokenizer = transformers.AutoTokenizer.from_pretrained(model)
            trainer = stock_trainer(net, rows_of(train), tokenizer, folder, num_train_epochs=1, seed=seed)
            trainer.train()
            answers = trainer.predict(rows_of(validation))
            right = np.argmax(answers.predictions, axis=-1) == answers.label_ids
            found["trainer"].append(float(right.mean()))
        print(seed, found, flush=True)
    return found


def tables(found: Mapping[str, Any]) -> list[Table]:
    """Write figures as tables."""
    rows = []
    for name, case in found["cases"].items():
        ours, trainer = case["rates"]["ours"], case["rates"]["trainer"]
        ratios = sorted(one / other for one, other in zip(ours, trainer, strict=True))
        rows.append(
            (
                name,
                f"{statistics.median(ours):.0f} ({statistics.median(case['steady']):.0f})",
                f"{statistics.median(trainer):.1f}",
                f"{statistics.median(ratios):.1f} ({ratios[0]:.1f} to {ratios[-1]:.1f})",
                f"{case['floor'] / statistics.median(case['steady']):.1f}",
                " : ".join(f"{case['memory'][way] / 2**30:.1f}" for way in ("ours", "trainer")),
            )
        )
    peaks = found["ceilings"]
    return [
        Table(
            title="Fine-tuning beside the Trainer",
            header=("shape", "updates/s (once captured)", "Trainer", "ratio", "floor : ours", "GiB reserved"),
            rows=tuple(rows),
            note=f"One {found['device']}, torch {found['torch']}, batches of {BATCH}, medians of "
            f"{found['rounds']} interleaved rounds of "
            f"{', '.join(str(case['updates']) for case in found['cases'].values())} updates, smallest and "
            "largest ratio in parentheses; the floor takes a large product in bfloat16 "
            f"({peaks['operations'] / 1e12:.0f} TFLOP/s) and a large copy ({peaks['bytes'] / 1e12:.1f} "
            "TB/s), both measured in the same run.",
        )
    ]


def score_sentence(found: Mapping[str, Any]) -> str:
    """Compare the scores of both in a sentence."""
    ours, trainer = found["scores"]["ours"], found["scores"]["trainer"]
    differences = [100 * (one - other) for one, other in zip(ours, trainer, strict=True)]
    spread = 100 * statistics.mean([statistics.pstdev(ours), statistics.pstdev(trainer)])
    values = [", ".join(f"{100 * score:.1f}" for score in scores) for scores in (ours, trainer)]
    return (
        f"After one epoch of {found['examples']:,} examples of SST-2, {found['model']} has {values[0]} % of "
        f"{found['judged']} validation examples right with {len(ours)} seeds, and {values[1]} % with the "
        f"Trainer; mean difference {statistics.mean(differences):+.1f} points, mean standard deviation over "
        f"seeds {spread:.1f}."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Updates a second beside those of the stock Trainer.")
    parser.add_argument("--data", help="folder of SST-2's folder")
    parser.add_argument("--tokenizer", type=Path, help="folder of a model with the tokenizer of BERT")
    parser.add_argument("--model", type=Path, help="checkpoint whose scores are compared")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of updates")
    parser.add_argument("--examples", type=int, default=8_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--load", type=Path, help="figures of an earlier run, instead of measuring")
    parser.add_argument("--markdown", type=Path, help="a page with the marks")
    chosen = parser.parse_args(arguments)
    if chosen.load is not None:
        found = json.loads(chosen.load.read_text())
    else:
        import microtome as mt

        task = mt.task("sst2", data=chosen.data)
        found = measure(task, chosen.tokenizer, chosen.rounds, chosen.scale)
        if chosen.model is not None:
            found |= {"model": chosen.model.name, "examples": chosen.examples}
            found |= {"judged": len(task.split("validation"))}
            found["scores"] = scores(chosen.model, task, range(3), chosen.examples)
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(found, indent=1))
    text = "\n\n".join(table.markdown() for table in tables(found))
    text += f"\n\n{score_sentence(found)}" if "scores" in found else ""
    print(text)
    if chosen.markdown is not None:
        before, _, rest = chosen.markdown.read_text().partition(MARKS[0])
        after = rest.partition(MARKS[1])[2]
        chosen.markdown.write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{after}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
