"""What does it cost to look at every layer while a model runs?

A model of the shape of BERT-base with random weights reads generated sentences on one thread. The unit is its
bare forward pass over the same batches, inputs prepared beforehand; for rows of words, that plus the matrix
products of the moments on rows that lie ready. Everything runs in turn, round after round. Run it as

    PYTHONPATH=src python benchmarks/run.py --only extraction

With `--device` it times a whole comparison of two models there instead; see `compare_speed.py`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import compare_speed
import numpy as np
from engine import Table, interleaved
from memory import Watch

from microtome.corpora.examples import Example
from microtome.randomness import generator

WORDS = 2000
SHAPES = {"base": {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}}
SMALL = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}


def make_encoder(name: str, layers: int, sizes: Mapping[str, Any], seed: int) -> Any:
    """An encoder of BERT's kind with random weights, and a tokenizer for which a word is one token."""
    import torch
    from tokenizers import Tokenizer as Backend
    from tokenizers import models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel

    from microtome.encoders.encoder import Source, TransformerEncoder
    from microtome.encoders.families.bert import BERT
    from microtome.encoders.tokens import Tokenizer

    vocabulary = {word: k for k, word in enumerate(["[PAD]", "[CLS]", "[SEP]", *map(str, range(WORDS))])}
    backend = Backend(models.WordLevel(vocabulary, unk_token="[PAD]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = BertModel(BertConfig(vocab_size=len(vocabulary), num_hidden_layers=layers, **sizes)).eval()
    return TransformerEncoder(
        name=name,
        family=BERT,
        model=model,
        tokenizer=Tokenizer(backend, longest=512, typed=True),
        source=Source(given="random weights"),
    )


class Sentences:
    """Sentences of 2 to 40 words, 13 on average, as web text has them; drawn anew each time they are read."""

    def __init__(self, count: int, seed: int = 0) -> None:
        self.count, self.seed = count, seed

    def __iter__(self) -> Iterator[Example]:
        rng = generator(self.seed, "extraction")
        for k in range(self.count):
            length = int(np.clip(rng.geometric(1 / 12) + 1, 2, 40))
            yield Example(id=str(k), words=tuple(map(str, rng.integers(WORDS, size=length))))


def streamed_map(encoder: Any, corpus: Any, kind: str) -> Any:
    """Compare the layers of an encoder on rows of one kind that are added to the moments and not kept."""
    from microtome.comparison.compare import ComparisonInputs, compare_layers
    from microtome.comparison.request import SimilarityOptions
    from microtome.context import Context
    from microtome.extraction.texts import Texts
    from microtome.measures.table import chosen_all
    from microtome.rows.planning import plan_rows
    from microtome.rows.selecting import row_options

    inputs = ComparisonInputs(
        encoders=[encoder],
        texts=Texts(examples=corpus, name="drawn", digest=""),
        rows=plan_rows(corpus, [encoder], row_options(kind)),
        measures=tuple(chosen_all("linear_cka")),
        keep=False,
    )
    return compare_layers(inputs, SimilarityOptions(device="cpu"), Context())


def measure_rows(
    *, sentences: int = 512, layers: int = 12, sizes: Mapping[str, int] = SHAPES["base"], repeats: int = 3
) -> dict[str, Any]:
    """Time the bare passes, and extraction into moments, for rows of whole examples and of words."""
    import torch

    from microtome.extraction.streaming import CPU_TOKENS, buckets
    from microtome.moments.crossing import CrossingSums
    from microtome.rows.planning import WINDOW, windows

    torch.set_num_threads(1)
    encoder, corpus = make_encoder("base", layers, sizes, 0), list(Sentences(sentences))
    inputs = []
    for _, part in windows(corpus, WINDOW):
        cut = encoder.words([e.words for e in part])
        inputs += [
            encoder.tokenizer.collate([cut[k] for k in batch])
            for batch in buckets([len(t) for t in cut], CPU_TOKENS)
        ]
    width, count = sizes["hidden_size"], layers + 1
    words = sum(len(e.words or ()) for e in corpus)
    ready = torch.from_numpy(generator(0, "ready").standard_normal((min(words, 5000), count * width))).float()

    def forward() -> None:
        with torch.inference_mode():
            for batch in inputs:
                encoder.base(**batch)

    def products() -> None:
        sums = CrossingSums(
            names=[str(k) for k in range(count)],
            widths=[width] * count,
            left=None,
            dtype=torch.float32,
            device=torch.device("cpu"),
        )
        for start in range(0, words, 5000):
            sums.add(ready[: min(5000, words - start)])

    def extraction(kind: str) -> Callable[[], Any]:
        return lambda: streamed_map(encoder, corpus, kind)

    calls = {
        "forward pass": forward,
        "moments of ready rows of words": products,
        "cls rows into moments": extraction("cls"),
        "word rows into moments": extraction("word"),
    }
    timings, _ = interleaved(calls, repeats)
    bare, ready_cpu = timings["forward pass"], timings["moments of ready rows of words"]
    units = {
        "cls rows into moments": (bare.cpu, bare.wall, 1.15),
        "word rows into moments": (bare.cpu + ready_cpu.cpu, bare.wall + ready_cpu.wall, 1.1),
    }
    rows = []
    for name, found in timings.items():
        cpu, wall, target = units.get(name, (bare.cpu, bare.wall, None))
        rows.append(
            {"name": name, "ratio": found.cpu / cpu, "wall_ratio": found.wall / wall, "target": target,
             "runs": found.runs}
        )  # fmt: skip
    return {"sentences": sentences, "words": words, "layers": layers, "width": width, "rows": rows}


def measure_memory(
    *, sentences: Sequence[int] = (1000, 4000, 16000), sizes: Mapping[str, int] = SMALL
) -> dict[str, Any]:
    """Watch the memory of extraction into moments as the corpus grows."""
    import torch

    torch.set_num_threads(1)
    encoder = make_encoder("small", 2, sizes, 0)
    found = []
    for count in (200, *sentences):
        corpus = Sentences(count)
        with Watch() as watch:
            maps = streamed_map(encoder, corpus, "word")
        found.append({"sentences": count, "rows": maps["linear_cka"].n, "peak": watch.peak})
    # The first, small run brings in what every later one finds there.
    peaks = [one["peak"] for one in found[1:]]
    return {"rows": found[1:], "growth": max(peaks) / min(peaks)}


def measure_attention(
    *, sentences: int = 200, layers: int = 12, sizes: Mapping[str, int] = SHAPES["base"], repeats: int = 3
) -> dict[str, Any]:
    """Compare the attention of two models, end to end, with maps kept first and compared in a loop."""
    import torch
    from scipy.special import rel_entr

    from microtome.comparison.attention import attention_maps
    from microtome.comparison.request import SimilarityOptions
    from microtome.extraction.attention import stream_attention
    from microtome.extraction.streaming import CPU_TOKENS, buckets
    from microtome.extraction.texts import make_texts
    from microtome.measures.table import chosen_all
    from microtome.rows.planning import plan_rows
    from microtome.rows.selecting import row_options

    torch.set_num_threads(1)
    pair = [make_encoder(f"m{k}", layers, sizes, k) for k in range(2)]
    corpus = list(Sentences(sentences))
    texts, planned = make_texts(corpus), plan_rows(corpus, pair, row_options("word"))
    measures = list(chosen_all("attention_js"))
    few = corpus[: max(sentences // 50, 1)]
    few_rows = plan_rows(few, pair, row_options("word"))
    share = sum(len(e.words or ()) ** 2 for e in few) / sum(len(e.words or ()) ** 2 for e in corpus)

    def ours() -> Any:
        return attention_maps(pair, texts, planned, measures, SimilarityOptions())

    def forward() -> None:
        with torch.inference_mode():
            for encoder in pair:
                cut = encoder.words([e.words for e in corpus])
                for batch in buckets([len(t) for t in cut], CPU_TOKENS):
                    encoder.base(**encoder.tokenizer.collate([cut[k] for k in batch]))

    def maps_alone() -> None:
        for _ in stream_attention(pair, corpus, planned):
            pass

    def loop() -> None:
        """Keep the maps of all heads, then go through all pairs of heads in Python."""
        kept = [one.maps for one in stream_attention(pair, few, few_rows)]
        for left, right in kept:
            flat = [maps.reshape(-1, *maps.shape[2:]) for maps in (left, right)]
            for one in flat[0]:
                for other in flat[1]:
                    middle = (one + other) / 2
                    (rel_entr(one, middle) + rel_entr(other, middle)).sum()

    calls = {"end to end": ours, "forward": forward, "maps alone": maps_alone, "loop": loop}
    timings, _ = interleaved(calls, repeats, patience=60)
    end = timings["end to end"].cpu
    return {
        "sentences": sentences,
        "loop_sentences": len(few),
        "forward_share": timings["forward"].cpu / end,
        "maps_share": timings["maps alone"].cpu / end,
        "loop_times": timings["loop"].cpu / share / end,
        "runs": timings["end to end"].runs,
    }


def run(*, scale: str = "full", repeats: int = 3) -> dict[str, Any]:
    """Measure all three parts."""
    small: dict[str, Any] = {} if scale == "full" else {"layers": 2, "sizes": SMALL}
    counts = {"full": (512, (1000, 4000, 16000), 200), "smoke": (30, (100, 200), 4)}
    rows, memory, attention = counts.get(scale, (256, (500, 2000), 50))
    return {
        "rows": measure_rows(sentences=rows, repeats=repeats, **small),
        "memory": measure_memory(sentences=memory),
        "attention": measure_attention(sentences=attention, repeats=repeats, **small),
    }


def tables(result: Mapping[str, Any]) -> list[Table]:
    """Show the results of `run`."""
    rows, memory, attention = result["rows"], result["memory"], result["attention"]
    shown = [
        (
            row["name"],
            f"{row['ratio']:.2f}",
            f"{row['wall_ratio']:.2f}",
            "" if row["target"] is None else f"{row['target']:.2f}",
            "" if row["target"] is None else ("yes" if row["ratio"] <= row["target"] else "**no**"),
        )
        for row in rows["rows"]
    ]
    return [
        Table(
            title=f"{rows['layers']} layers of width {rows['width']}, {rows['sentences']:,} sentences, "
            f"{rows['words']:,} words",
            header=("what", "CPU ratio", "wall ratio", "target", "reached"),
            rows=tuple(shown),
            note="Ratios are to the bare forward pass; that of word rows is to the pass and the moments of "
            f"ready rows together. Cutting into tokens and planning the rows are counted. Medians over "
            f"rounds: {rows['rows'][0]['runs']}.",
        ),
        Table(
            title="Memory of word rows into moments as the corpus grows",
            header=("sentences", "rows", "peak MB"),
            rows=tuple(
                (f"{one['sentences']:,}", f"{one['rows']:,}", f"{one['peak'] / 1e6:.0f}")
                for one in memory["rows"]
            ),
            note="Private memory of the whole process, planning included; sentences are read as they are "
            f"needed. Largest peak over smallest: {memory['growth']:.2f}.",
        ),
        Table(
            title=f"Jensen-Shannon similarity of two models' attention on {attention['sentences']} sentences",
            header=("what", "times end to end, CPU"),
            rows=(
                ("end to end, three blocks of the map", "1.0"),
                ("forward passes of both models, fused attention", f"{attention['forward_share']:.2f}"),
                ("word-level maps of both models alone", f"{attention['maps_share']:.2f}"),
                ("maps kept, then a loop over pairs of heads, one block", f"{attention['loop_times']:.1f}"),
            ),
            note=f"The loop ran on {attention['loop_sentences']} sentences and is scaled by pairs of words.",
        ),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Cost of looking at every layer of a model.")
    parser.add_argument("--scale", choices=("full", "quick", "smoke"), default="full")
    parser.add_argument("--repeats", type=int, default=3, help="rounds")
    parser.add_argument("--json", type=Path, help="where to write the results")
    parser.add_argument("--device", help="time a comparison of two models on this device, such as cuda")
    parser.add_argument("--sentences", type=int, default=compare_speed.SENTENCES, help="with --device")
    parser.add_argument("--profile", type=Path, help="with --device: where to write what takes the time")
    chosen = parser.parse_args(arguments)
    if chosen.device is not None:
        result = compare_speed.measure(
            chosen.device,
            shape="base" if chosen.scale == "full" else "small",
            count=chosen.sentences,
            repeats=chosen.repeats,
            profile=chosen.profile,
        )
        print(compare_speed.table(result).markdown())
        text = json.dumps(result, indent=1)
        print(text)
        if chosen.json is not None:
            chosen.json.write_text(text)
        return 0
    result = run(scale=chosen.scale, repeats=chosen.repeats)
    for table in tables(result):
        print(table.markdown())
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
