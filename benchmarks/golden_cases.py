"""What is run for the golden numbers: commands as a user types them, and calls of the library.

Commands run in this order in one folder, with one store, so that later ones read what earlier ones wrote.
Calls give nested mappings and lists of numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import golden_inputs
import numpy as np

COLUMNS = "--column text=text --column label=label"
CATS = f"--task cats {COLUMNS}"
# Enough for the tiny model to tell cats from tea, most of the time.
QUICK = "--set steps=80 --set batch=16 --set rate=1e-3 --set longest=16"
FEW = "--set steps=12 --set batch=16 --set rate=1e-3 --set longest=16"
MOMENTS = (
    "linear_cka,debiased_cka,cca,cca:statistic=mean_rho2,svcca,svcca:scaling=standardize:inclusive=false,"
    "pwcca,pwcca:variant=svcca,pwcca:variant=wu,neuron_correlation,neuron_correlation:match=one_to_one,"
    "mixed_regression,linear_regression,linear_regression:estimator=cross_validated,procrustes"
)
ROWS = "rsa,rsa:inner=sqeuclidean:outer=spearman,mutual_knn,rbf_cka,rbf_cka:debiased=true"
ATTENTION = "attention_norm,attention_pearson,attention_js,attention_cka,attention_svcca"

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "similarity, moments": f"similarity tall.npy after.npy --measures {MOMENTS} --precision exact",
        "similarity, fast": f"similarity tall.npy after.npy --measures {MOMENTS},{ROWS}",
        "similarity, certainty": (
            "similarity tall.npy after.npy --measures debiased_cka,linear_cka,svcca,neuron_correlation "
            "--certainty --halves 6 --permutations 19"
        ),
        "similarity, clusters": (
            "similarity tall.npy after.npy --measures debiased_cka,svcca,rsa --clusters sentence.npy "
            "--certainty --halves 6 --permutations 19 --level 0.9"
        ),
        "similarity, Gram": "similarity wide.npy --measures linear_cka,debiased_cka",
        "similarity, Gram, certainty": (
            f"similarity wide.npy --measures linear_cka,debiased_cka,{ROWS} --certainty --halves 6"
        ),
        "similarity, rows left out": (
            "similarity tall.npy after.npy --measures debiased_cka,linear_cka --leave-out leave.npy "
            "--sample 150 --zscore --remove-top 2 --seed 3"
        ),
        "similarity, little memory": (
            "similarity large.npy --measures debiased_cka,linear_cka,svcca,neuron_correlation --certainty "
            "--halves 6 --permutations 9 --memory 4MB"
        ),
        "similarity, little memory, clusters": (
            "similarity large.npy --measures debiased_cka,linear_cka,svcca --clusters document.npy "
            "--certainty --halves 6 --permutations 9 --memory 4MB"
        ),
        "similarity, blocks": "similarity blocks.npy --certainty",
        "extract": "extract base --on lines.txt --rows mean --out layers",
        "finetune": f"finetune base {CATS} {QUICK} --seeds 1,2 --out runs",
        "finetune, jiant": (
            f"finetune base {CATS} {FEW} --recipe phang2021 --set warmup_steps=2 --head jiant --out jiant"
        ),
        "finetune, checkpoints": (
            f"finetune base {CATS} {QUICK} --checkpoints 5,20 --train-size 64 --out course"
        ),
        "evaluate": f"evaluate runs/seed-1 {CATS} --against runs/seed-2 --split test",
        "compare, words": (
            "compare base runs/seed-1 --on lines.txt --rows word --random-baselines 1 --certainty "
            "--out study/words"
        ),
        "compare, tokenizers": (
            "compare base causal elmo --on documents.txt --read blank_lines=documents --rows word "
            "--measures debiased_cka,svcca,rsa --sample 200 --certainty --halves 4"
        ),
        "compare, published rows": (
            "compare base causal --on lines.txt --published wu --measures ckasim,svsim,pwsim"
        ),
        "compare, attention": (
            f"compare base runs/seed-1 --on lines.txt --measures {ATTENTION} --certainty --halves 4"
        ),
        "compare, inputs": "compare base runs/seed-1 runs/seed-2 --on cats/validation.csv --rows cls",
        "compare, zoo": "compare zoo:masked zoo:replaced --on lines.txt --rows mean --certainty",
        "truncate": (
            f"truncate runs/seed-1 runs/seed-2 {CATS} --base base {FEW} --head-seeds 0,1 --out study/truncate"
        ),
        "skip": f"skip runs/seed-1 runs/seed-2 {CATS} --out study/skip",
        "freeze": f"freeze base {CATS} {FEW} --ks 0,2,4 --seeds 1,2 --no-measure-time",
        "reinit": (
            f"reinit base {CATS} {FEW} --plans progressive --schemes library,tamkin_code "
            "--no-truncation-control --seeds 1,2 --train-size 64"
        ),
        "permute": (
            f"permute base {CATS} --task dogs {FEW} --order-seeds 1-2 --kinds random,reverse --seeds 1,2"
        ),
        "drop": f"drop base {CATS} {FEW} --count 2 --random-draws 2 --seeds 1,2 --train-size 64",
        "drop, head": f"drop base {CATS} {FEW} --count 1 --strategies top,bottom --then head,none --seeds 1",
        "prune": f"prune runs/seed-1 {CATS} --max-drop 20 --split validation --certify-on test --out small",
        "prune, nothing": f"prune runs/seed-1 {CATS} --max-drop 1 --split validation --seed 4",
        "probe, parts of speech": (
            "probe base runs/seed-1 --on treebank --target upos --control-task --out study/upos"
        ),
        "probe, control draws": (
            "probe base --on treebank --target deprel --control-draws 2 --control-task --random-baselines 0 "
            "--size 8"
        ),
        "probe, bits": "probe base --on treebank --target upos --mdl --control-task",
        "probe, spans": "probe base --on names --target entities --layers single,mix --steps 20",
        "probe, distances": "probe base --on treebank --target dep-distance --random-baselines 0",
        "probe, depths": "probe base --on treebank --target dep-depth --random-baselines 0",
        "probe, task": f"probe base --target task:cats {COLUMNS} --epochs 1 --seeds 0,1",
        "change": (
            "change base runs/seed-1 runs/seed-2 --on lines.txt --sample 300 --halves 6 --out study/change"
        ),
        "domains": (
            "domains base runs/seed-1 runs/seed-2 --inside lines.txt --outside others.txt --sample 300 "
            "--halves 6"
        ),
        "localize": "localize base runs/seed-1 --on lines.txt --sample 300 --rotations 3 --halves 4",
        "ways": (
            f"tuning-methods base {CATS} {FEW} --methods full,lora,bitfit,head --rates full=1e-3,3e-3 "
            "--rates lora=1e-2 --rates bitfit=1e-2 --rates head=1e-2 --seeds 1,2 --sample 300 --halves 4"
        ),
        "trajectory": f"trajectory course/seed-0 --on lines.txt {CATS} --start base --sample 300",
        "pretrain": (
            "pretrain masked --corpus corpus.txt --out made --tokenizer base/tokenizer.json --checkpoints 3 "
            "--set layers=2 --set width=32 --set heads=2 --set inner=64 --set length=24 --set batch=4 "
            "--set steps=6"
        ),
        "report": "report study",
    }
)


def two_layers() -> Any:
    """Every measure on one pair of layers, by rows and by cluster."""
    import microtome as mt

    x, y = np.load("tall.npy")[1], np.load("after.npy")[2]
    names = [name for name in mt.MEASURES if not name.startswith("attention")]
    rows = {name: estimate(mt.similarity(x, y, name)) for name in names}
    clustered = mt.similarity(x, y, clusters=np.load("sentence.npy"), certainty=True, permutations=19)
    return {"rows": rows, "clusters": estimate(clustered)}


def estimate(given: Any) -> dict[str, Any]:
    return {name: getattr(given, name, None) for name in ("value", "low", "high", "p", "z", "null_mean", "n")}


def fields(given: Any, names: str) -> dict[str, Any]:
    return {name: getattr(given, name) for name in names.split()}


def difference() -> Any:
    import microtome as mt

    maps = mt.similarity_matrix(np.load("tall.npy"), np.load("after.npy"), certainty=True)
    compared = maps["debiased_cka"].difference((1, 1), (0, 2))
    return {"value": compared.value, "low": compared.low, "high": compared.high}


def streamed() -> Any:
    """A stack that does not fit into what may be held."""
    import microtome as mt

    maps = mt.similarity_matrix(
        golden_inputs.stack(4, 3000, 48, seed=9), measures=["svcca", "debiased_cka"], memory="1MB"
    )
    return {name: maps[name].values for name in maps}


def structure() -> Any:
    """What maps say, by the functions that read them."""
    import microtome as mt

    layers = np.load("blocks.npy")
    maps = mt.similarity_matrix(layers, layers[:, :, :8], ["debiased_cka", "svcca", "neuron_correlation"])
    cka = maps["debiased_cka"].values
    neuron, svcca = (
        mt.similarity_matrix(layers, measures=name)[name].values for name in ("neuron_correlation", "svcca")
    )
    matched = mt.analysis.layer_matching(cka)
    return {
        "change": fields(mt.analysis.change_profile(cka), "change center top_third"),
        "matching": {
            **fields(matched, "accuracy within_one chance best"),
            "low": matched.interval.low,
            "high": matched.interval.high,
        },
        "mantel": fields(mt.analysis.mantel(neuron, svcca, permutations=99), "correlation p"),
        "monotonicity": fields(mt.analysis.monotonicity(svcca), "tau violated"),
        "localization": mt.analysis.localization(neuron, svcca).scores,
        "localization, described": mt.analysis.localization(
            neuron, svcca, zscore=False, direction="out"
        ).scores,
        "rotations": fields(
            mt.analysis.find_localization(layers[:4], rotations=3), "value rotated_mean rotated_sd"
        ),
        "convergence": fields(
            mt.analysis.convergence(layers[0], layers[1]), "sizes values low high null_mean"
        ),
    }


def find_blocks() -> Any:
    """Every number that a finding of blocks has."""
    import microtome as mt

    finding: Any = mt.analysis.find_blocks(np.load("blocks.npy"))
    if not hasattr(finding, "blocks"):  # one border in the whole stack, as blocks were defined before
        names = "border border_other contrast standard_error z gap gap_ratio plain_border plain_contrast"
        return {**fields(finding, names), "low": finding.interval.low, "high": finding.interval.high}
    return [
        {
            **fields(block, "first last inside outside margin certain"),
            "low": block.interval.low,
            "high": block.interval.high,
        }
        for block in finding.blocks
    ]


def validity() -> Any:
    """Does the similarity of layers predict costs, where one measure does by construction."""

    from predictive_validity import Case, predictive_validity

    rng = np.random.default_rng(10)

    def walk(depth: int) -> np.ndarray:
        places = np.concatenate([[0.0], np.cumsum(0.2 + rng.random(depth))])
        return np.abs(np.subtract.outer(places, places))

    cases = []
    for model in ("first", "second"):
        for task in ("cats", "dogs", "books"):
            for seed in (1, 2):
                apart = walk(5)
                cost = np.full((5, 5), np.nan)
                i, j = np.triu_indices(6, 1)
                cost[i, j - 1] = apart[i, j] + 0.3 * rng.random(len(i))
                similar = {"good": np.exp(-apart), "noise": np.exp(-walk(5))}
                cases.append(Case(model=model, task=task, seed=seed, cost=cost, similarity=similar))
    return dict(predictive_validity(cases).more)


def interventions() -> Any:
    """Digests of encoders that were changed."""
    import microtome as mt

    encoder = mt.load("base")
    changes = {
        "truncate": mt.Truncate(keep=2),
        "skip": mt.Skip(blocks=(2, 3)),
        "reinit": mt.Reinit(blocks=(1, 4), seed=3),
        "permute": mt.Permute(order=(4, 3, 2, 1)),
    }
    drawn: dict[str, Any] = {"twin": mt.load("base", random_init=True, seed=5)}
    drawn |= {name: mt.apply(encoder, change) for name, change in changes.items()}
    return {name: _weights(changed.model) for name, changed in drawn.items()}


def _weights(model: Any) -> str:
    whole = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        whole.update(name.encode())
        whole.update(np.ascontiguousarray(tensor.numpy()).tobytes())
    return whole.hexdigest()


def rows() -> Any:
    """Rows of every kind, layer by layer."""
    import microtome as mt

    out: dict[str, Any] = {}
    for source in ("base", "causal", "elmo", "zoo:causal"):
        encoder = mt.load(source)
        for kind in ("word", "mean", *(() if source == "elmo" else ("token",))):
            taken = mt.extract(encoder, "lines.txt", rows=kind, sample=60)
            out[f"{source}, {kind}"] = [np.asarray(layer) for layer in taken.layers]
    return out


def trained() -> Any:
    """Digests of the weights that training gave, and the layers that `extract` wrote."""
    import microtome as mt

    task = mt.task("cats", text="text", label="label")
    pretrained: list[Any] = [mt.load(folder) for folder in ("made/step-3", "made")]
    runs = [mt.open_tuned(f"runs/seed-{seed}", task) for seed in (1, 2)]
    layers = sorted(Path("layers").glob("*.safetensors"))
    return {
        "weights": [_weights(run.model) for run in runs],
        "jiant": _weights(mt.open_tuned("jiant/seed-0", task).model),
        "pretrained": [_weights(encoder.model) for encoder in pretrained],
        "mean": estimate(mt.over_seeds(runs)),
        "files": [hashlib.sha256(file.read_bytes()).hexdigest() for file in layers],
    }


def watched() -> Any:
    """Layers of any module, seen while it runs."""
    import torch

    import microtome as mt

    rng = np.random.default_rng(11)
    modules = [
        torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.Tanh(), torch.nn.Linear(16, 8)) for _ in "ab"
    ]
    for module in modules:
        for parameter in module.parameters():
            parameter.data = torch.from_numpy(rng.standard_normal(tuple(parameter.shape)).astype(np.float32))
    batches = [torch.from_numpy(rng.standard_normal((40, 12)).astype(np.float32)) for _ in range(3)]
    with mt.watch(*modules, layers=["0", "2"]) as seen, torch.no_grad():
        for batch in batches:
            for module in modules:
                module(batch)
    maps = seen.similarity_matrix(["debiased_cka", "svcca"])
    return {name: maps[name].values for name in maps}


CALLS: Mapping[str, Callable[[], Any]] = MappingProxyType(
    {
        "every measure": two_layers,
        "difference of cells": difference,
        "streamed": streamed,
        "structure": structure,
        "blocks": find_blocks,
        "predictive validity": validity,
        "interventions": interventions,
        "rows": rows,
        "trained": trained,
        "watch": watched,
    }
)
