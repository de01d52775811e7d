"""What does it cost to compare all layers of two models, beside running the models?

Two models of the shape of BERT-base with random weights are compared on words of generated sentences, on one
device. The unit is their bare forward passes: the same batches in the same precision, inputs on the device
beforehand. Everything runs once before the clock starts, then in turn. The command also runs in a process of
its own. Run it as

    PYTHONPATH=src python benchmarks/extraction.py --device cuda --json compare.json --profile profile.txt
"""

from __future__ import annotations

import cProfile
import io
import json
import platform
import pstats
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from engine import Table, interleaved

from microtome.randomness import generator

SHAPES: Mapping[str, Mapping[str, Any]] = {
    "base": {
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
    },
    "small": {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 128},
}
SENTENCES, VOCABULARY = 6000, 8000
CHECKED = 3  # layers whose map is computed on the CPU, too
AGREE = 1e-9  # the largest difference from it
FORWARD, OPEN, COMMAND = "bare forward passes", "compare, models open", "compare, models in folders"
STAGES = ("rows planned", "models run, rows held", "map of held rows", "products of all pairs, float64")


def sentences(count: int, seed: int = 0) -> list[str]:
    """Draw sentences of 3 to 60 words, 17 on average, from 20,000 made-up words with a Zipf distribution."""
    rng = generator(seed, "compared sentences")
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    words = np.array(["".join(rng.choice(letters, size=int(rng.integers(2, 10)))) for _ in range(20_000)])
    weights = 1 / np.arange(1, len(words) + 1)
    lengths = np.clip(rng.geometric(1 / 15, size=count) + 2, 3, 60)
    drawn = rng.choice(len(words), p=weights / weights.sum(), size=int(lengths.sum()))
    return [" ".join(words[part]) for part in np.split(drawn, np.cumsum(lengths)[:-1])]


def save_models(folder: Path, lines: Sequence[str], shape: str, count: int = 2) -> list[Path]:
    """Save models with random weights, and a tokenizer of word pieces that was trained on the sentences."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
    from transformers import BertConfig, BertModel

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    tokenizer.train_from_iterator(
        lines, trainers.WordPieceTrainer(vocab_size=VOCABULARY, special_tokens=special, show_progress=False)
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = ["input_ids", "token_type_ids", "attention_mask"]
    facts = {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": names}
    folders = []
    for seed in range(count):
        torch.manual_seed(seed)
        place = folder / f"model{seed}"
        BertModel(BertConfig(vocab_size=tokenizer.get_vocab_size(), **SHAPES[shape])).save_pretrained(place)
        tokenizer.save(str(place / "tokenizer.json"))
        (place / "tokenizer_config.json").write_text(json.dumps(facts))
        folders.append(place)
    return folders


def bare_passes(encoders: Sequence[Any], rows: Any) -> tuple[Callable[[], None], dict[str, int]]:
    """Make the forward passes of the batches of a comparison, and count their tokens."""
    import torch

    from microtome.extraction.streaming import CUDA_TOKENS, buckets

    (kept,) = rows.tokens.kept.values()
    tokens = [kept[index] for index in sorted(kept)]
    batches = list(buckets([len(t) for t in tokens], CUDA_TOKENS))
    inputs = [
        [encoder.tokenizer.collate([tokens[k] for k in batch], encoder.device) for batch in batches]
        for encoder in encoders
    ]

    def forward() -> None:
        with torch.inference_mode():
            for encoder, prepared in zip(encoders, inputs, strict=True):
                for batch in prepared:
                    encoder.base(**batch, **encoder.family.arguments)

    padded = sum(batch["input_ids"].numel() for batch in inputs[0])
    return forward, {"tokens": sum(map(len, tokens)), "padded": padded, "batches": len(batches)}


def products_of(layers: Sequence[Any]) -> Callable[[], None]:
    """Make the float64 products of all pairs of layers, in tiles, on rows that lie ready."""
    import torch

    from microtome.moments.tiles import TILE_ROWS

    width, count = layers[0].shape[1], len(layers)
    tile = torch.cat([layer[:TILE_ROWS].double() for layer in layers], 1)
    sums = [
        torch.zeros((width, (count - i) * width), dtype=tile.dtype, device=tile.device) for i in range(count)
    ]

    def products() -> None:
        for start in range(0, len(layers[0]), TILE_ROWS):
            Z = tile[: len(layers[0]) - start]
            for i, strip in enumerate(sums):
                strip.addmm_(Z[:, i * width : (i + 1) * width].T, Z[:, i * width :])

    return products


def measure(
    device: str, *, shape: str = "base", count: int = SENTENCES, repeats: int = 3, profile: Path | None = None
) -> dict[str, Any]:
    """
    Time a comparison end to end and by stages, beside the bare forward passes.

    Parameters
    ----------
    device : str
        "cuda"; "cpu" only to try the script, where rows are streamed into the moments.
    shape : str
        Of `SHAPES`.
    count : int
        Number of sentences.
    repeats : int
    profile : Path, optional
        Where to write what takes the time.

    Returns
    -------
    dict
        Plain data.
    """
    import torch

    import microtome as mt
    from microtome.extraction.streaming import CUDA_TOKENS, stream
    from microtome.extraction.texts import make_texts
    from microtome.rows.planning import plan_rows
    from microtome.rows.selecting import row_options

    on_gpu = torch.device(device).type == "cuda"
    settings: dict[str, Any] = {"rows": "word", "device": device}
    if not on_gpu:
        settings |= {"measures": "linear_cka", "keep": False}

    def waited(call: Callable[[], Any]) -> Callable[[], Any]:
        def whole() -> Any:
            result = call()
            if on_gpu:
                torch.cuda.synchronize()
            return result

        return whole

    lines = sentences(count)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        corpus = folder / "sentences.txt"
        corpus.write_text("\n".join(lines) + "\n")
        folders = save_models(folder, lines, shape)
        encoders = [mt.load(place, device=device) for place in folders]
        texts = make_texts(str(corpus))
        rows = plan_rows(texts.examples, encoders, row_options("word"))
        forward, sizes = bare_passes(encoders, rows)
        clusters = rows.clusters

        def run_models() -> list[Any]:
            (window,) = stream(encoders, texts.examples, rows, window=count, tokens=CUDA_TOKENS)
            return [layer for side in window.layers for layer in side]

        def map_of(layers: Sequence[Any], where: str = device) -> Any:
            return mt.similarity_matrix(
                list(layers), clusters=clusters, spectra=True, precision="exact", device=where
            )

        calls: dict[str, Callable[[], Any]] = {
            FORWARD: waited(forward),
            OPEN: waited(lambda: mt.compare(encoders, on=str(corpus), **settings)),
            COMMAND: waited(
                lambda: mt.compare([str(place) for place in folders], on=str(corpus), **settings)
            ),
        }
        result: dict[str, Any] = {
            "device": torch.cuda.get_device_name(device) if on_gpu else f"CPU ({platform.machine()})",
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "shape": dict(SHAPES[shape]),
            "sentences": count,
            "rows": len(rows),
            **sizes,
        }
        held = run_models() if on_gpu else []
        if on_gpu:
            calls |= {
                STAGES[0]: lambda: plan_rows(texts.examples, encoders, row_options("word")),
                STAGES[1]: waited(run_models),
                STAGES[2]: waited(lambda: map_of(held)),
                STAGES[3]: waited(products_of(held)),
            }
        for call in calls.values():
            call()
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            calls[OPEN]()
            result["peak_bytes"] = torch.cuda.max_memory_allocated() - before
            few = [held[int(k)] for k in np.linspace(1, len(held) - 1, CHECKED)]
            expected = map_of([layer.cpu() for layer in few], "cpu")["debiased_cka"].values
            found = map_of(few)["debiased_cka"].values
            result["difference"] = float(np.abs(found - expected).max())
        timings, _ = interleaved(calls, repeats)
        if profile is not None:
            profile.write_text(profiled(calls[OPEN], on_gpu) + profiled(calls[COMMAND], on_gpu))
        result["processes"] = processes(folders, corpus, settings)
    result["stages"] = {name: asdict(timing) for name, timing in timings.items()}
    return result


def processes(folders: Sequence[Path], corpus: Path, settings: Mapping[str, Any]) -> dict[str, float]:
    """Seconds of the command in a process of its own, and of the start of one: imports, and the device."""
    device = settings["device"]
    start = f"import transformers, torch, microtome.cli; torch.zeros(1, device={device!r})"
    more = ["--measures", "linear_cka", "--no-keep"] if "keep" in settings else []
    models = [str(place) for place in folders]
    command = [
        "-m",
        "microtome",
        "compare",
        *models,
        "--on",
        str(corpus),
        "--rows",
        "word",
        "--device",
        device,
    ]
    with tempfile.TemporaryDirectory() as store:
        calls = {"start": ["-c", start], "command": [*command, *more, "--quiet", "--store", store]}
        seconds = {}
        for name, arguments in calls.items():
            taken = []
            # The first start reads the files of the libraries.
            for _ in range(2):
                began = time.perf_counter()
                subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
                taken.append(time.perf_counter() - began)
            seconds[name] = min(taken)
    return seconds


def profiled(call: Callable[[], Any], on_gpu: bool) -> str:
    """What takes the time of a call: 25 lines each of kernels, of operations and of Python functions."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities) as recorded:
        call()
        if on_gpu:
            torch.cuda.synchronize()
    averages = recorded.key_averages()
    text = "".join(
        f"\n{order}\n{averages.table(sort_by=order, row_limit=25, max_name_column_width=60)}\n"
        for order in ("self_cuda_time_total", "self_cpu_time_total")
        if on_gpu or "cpu" in order
    )
    recorder, out = cProfile.Profile(), io.StringIO()
    recorder.runcall(call)
    for order in ("tottime", "cumtime"):
        pstats.Stats(recorder, stream=out).sort_stats(order).print_stats(40)
    return text + out.getvalue()


def table(result: Mapping[str, Any]) -> Table:
    """Show the result of `measure`."""
    stages, start = result["stages"], result["processes"]
    unit = stages[FORWARD]["wall"]
    shown = [(name, f"{v['wall']:.3f}", f"{v['wall'] / unit:.2f}") for name, v in stages.items()]
    beyond = start["command"] - start["start"]
    shown += [
        ("start of a process: imports, device", f"{start['start']:.3f}", ""),
        ("command in its own process, without the start", f"{beyond:.3f}", f"{beyond / unit:.2f}"),
    ]
    notes = [
        f"{result['sentences']:,} sentences, {result['rows']:,} words, {result['tokens']:,} tokens "
        f"({result['padded']:,} with padding, {result['batches']} batches); float32 models, float64 moments. "
        f"Medians over rounds: {min(v['runs'] for v in stages.values())}, after a warm-up."
    ]
    if "difference" in result:
        notes.append(
            f"Largest difference from the CPU's exact mode over {CHECKED} layers: "
            f"{result['difference']:.1e}; peak memory of the device above the models: "
            f"{result['peak_bytes'] / 1e9:.2f} GB."
        )
    layers, width = result["shape"]["num_hidden_layers"], result["shape"]["hidden_size"]
    return Table(
        title=f"{result['device']}: two models of {layers} layers of width {width}, torch {result['torch']}",
        header=("what", "wall s", "ratio to the forward passes"),
        rows=tuple(shown),
        note=" ".join(notes),
    )
