"""What can a page be tried with? Documents of made-up numbers in the form of a report, small and large."""

from __future__ import annotations

from typing import Any

import numpy as np

from microtome.randomness import generator

SCRIPT = "<script>alert(1)</script>"


def document(sections: list[dict[str, Any]], findings: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """A report of some sections; a finding for each where none is given."""
    told = [
        {
            "text": f"Something is true of {one['title']} (95 %, over examples).",
            "section": one["id"],
            "layers": [],
        }
        | {"sure": "shown"}
        for one in sections
    ]
    return {
        "format": "microtome/report/1",
        "title": "A study of two encoders",
        "version": "0.1.0",
        "made": "2026-01-31",
        "findings": told if findings is None else findings,
        "sections": sections,
        "provenance": [
            {
                "file": "out/result.json",
                "format": "microtome/similarity/1",
                "command": "microtome compare base tuned --out out",
                "facts": [["torch", "2.13.0"], ["seconds", 12.5]],
            }
        ],
    }


def head(
    kind: str, id: str, title: str, task: str | None = "sst2", model: str | None = None
) -> dict[str, Any]:
    """What every section has."""
    return {
        "id": id,
        "kind": kind,
        "title": title,
        "task": task,
        "model": model,
        "basis": "debiased CKA; n = 1,500 rows; intervals over examples",
        "sentences": [f"A sentence about {title}. n = 7."],
        "below": [{"text": f"A sentence about {title}.", "evidence": "n = 7."}],
        "file": f"out/{id}/result.json",
    }


def map_section(
    id: str = "map",
    *,
    base: str = "base",
    tuned: str = "tuned",
    layers: int = 4,
    measures: tuple[str, ...] = ("debiased_cka", "svcca"),
    task: str = "sst2",
    names: tuple[str, ...] = ("ORIG-ORIG", "FT-ORIG"),
) -> dict[str, Any]:
    """Maps whose layers drift apart with their distance; the last cell of the second panel is undefined."""
    rng = generator(7, "page samples", id)
    sides = {model: [f"{model}/{k}" for k in range(layers)] for model in (base, tuned)}
    pairs = [(base, base), (tuned, base), (tuned, tuned), (tuned, base)]
    panels = []
    for k, name in enumerate(names):
        left, right = (sides[model] for model in pairs[k])
        panels.append(
            {
                "name": name,
                "left": left,
                "right": right,
                "symmetric": pairs[k][0] == pairs[k][1],
                "measures": [_measure(name, layers, rng, broken=k == 1) for name in measures],
            }
        )
    spectra = {
        f"{model}/{k}": {
            "depth": k,
            "model": model,
            "spectrum": [round(v, 6) for v in _spectrum(k)],
            "dimension": 3.5 + k,
        }
        for model in (base, tuned)
        for k in range(layers)
    }
    block = {"panel": 0, "measure": measures[0], "model": base, "runs": [[0, layers // 2]]}
    block |= {"text": f"Layers 0-{layers // 2} form a block.", "sure": True}
    return head("map", id, f"How alike are the layers of {base} and {tuned}?", task) | {
        "panels": panels,
        "layers": spectra,
        "blocks": [block],
    }


def _measure(name: str, layers: int, rng: np.random.Generator, *, broken: bool) -> dict[str, Any]:
    gap = np.abs(np.subtract.outer(np.arange(layers), np.arange(layers)))
    values = np.clip(np.exp(-gap / layers * 2) - 0.05 * rng.random((layers, layers)), 0, 1)
    values = np.where(gap == 0, 1.0, (values + values.T) / 2)
    one: dict[str, Any] = {
        "name": name,
        "label": name.replace("_", " "),
        "values": values.tolist(),
        "low": (values - 0.04).tolist(),
        "high": (values + 0.03).tolist(),
        "null_mean": np.full((layers, layers), 0.0123).tolist(),
        "z": (40 * values).tolist(),
        "p": np.full((layers, layers), 0.001).tolist(),
        "n": 1500,
        "estimator": "debiased",
        "unit": "example",
        "level": 0.95,
        "reasons": {},
        "lo": 0.0,
        "hi": 1.0,
        "note": "",
    }
    if broken:
        for key in ("values", "low", "high", "null_mean", "z", "p"):
            one[key][0][layers - 1] = None
        one["reasons"] = {f"0,{layers - 1}": "the layer is constant"}
    return one


def _spectrum(k: int, size: int = 16) -> list[float]:
    shares = 1.0 / np.arange(1, size + 1) ** (1.0 + 0.2 * k)
    return (shares / shares.sum()).tolist()


def curves_section(
    id: str = "curves", *, model: str = "tuned", depth: int = 3, task: str = "sst2", names: int = 2
) -> dict[str, Any]:
    """Scores by layers kept, with their doubt, and what each cut costs."""
    x = list(range(1, depth + 1))
    rise = [0.5 + 0.4 * k / depth for k in x]

    def curve(name: str, values: list[float], *, difference: bool = False) -> dict[str, Any]:
        return {
            "name": name,
            "x": x,
            "values": values,
            "low": [v - 0.02 for v in values],
            "high": [v + 0.02 for v in values],
            "band_low": [v - 0.05 for v in values],
            "band_high": [v + 0.05 for v in values],
            "n": 872,
            "note": "",
            "difference": difference,
        }

    several = [curve(f"ARM {k}", [v - 0.03 * k for v in rise]) for k in range(names)]
    return head("curves", id, f"What is left of {model} when its top is cut off?", task, model) | {
        "x_label": "layers kept",
        "y_label": "accuracy",
        "points": 100,
        "curves": [*several, curve("difference", [v - rise[-1] for v in rise], difference=True)],
        "lines": {"majority baseline": 0.509},
        "x_is_layer": True,
    }


def spans_section(
    id: str = "spans", *, model: str = "tuned", depth: int = 3, task: str = "sst2"
) -> dict[str, Any]:
    """Costs that grow with the length of the span: 2 points a block, and 5 for the first."""
    cost = [
        [0.02 * (j - i + 1) + (0.05 if i == 0 else 0.0) if j >= i else None for j in range(depth)]
        for i in range(depth)
    ]

    def moved(by: float) -> list[list[float | None]]:
        return [[None if v is None else v + by for v in row] for row in cost]

    return head("spans", id, f"Which blocks can {model} do without?", task, model) | {
        "depth": depth,
        "score": "accuracy",
        "points": 100,
        "full": 0.888,
        "values": cost,
        "low": moved(-0.01),
        "high": moved(0.01),
        "band_low": moved(-0.03),
        "band_high": moved(0.03),
        "n": 872,
        "seeds": 3,
        "note": "",
    }


def scores_section(id: str = "scores", *, task: str = "sst2") -> dict[str, Any]:
    """A small table."""
    return head("scores", id, "How well do the models do?", task) | {
        "columns": ["model", "seed", "accuracy"],
        "rows": [["tuned, first", 1, 0.8881], ["tuned, second", 2, None]],
    }


def lines_section(id: str = "lines", *, task: str = "sst2", steps: int = 40) -> dict[str, Any]:
    """Losses of two seeds."""
    x = list(range(steps))
    return head("lines", id, "How did training go?", task, "tuned") | {
        "x_label": "update",
        "y_label": "loss",
        "series": [{"name": f"seed {s}", "x": x, "y": [s * 0.9**k + 0.3 for k in x]} for s in (1, 2)],
    }


def small() -> dict[str, Any]:
    """One section of every kind."""
    return document([map_section(), curves_section(), spans_section(), scores_section(), lines_section()])


def hostile() -> dict[str, Any]:
    """A study in which every text tries to become markup."""
    evil = f"{SCRIPT}</script><img src=x onerror=alert(2)>"
    made = document(
        [
            map_section(base=evil, names=(evil, evil), task=evil),
            curves_section(model=evil, task=evil),
            spans_section(model=evil, task=evil),
            scores_section(task=evil) | {"rows": [[evil, 1, 2.0]]},
            lines_section() | {"x_label": evil, "series": [{"name": evil, "x": [0, 1], "y": [1.0, 2.0]}]},
        ]
    )
    made["title"] = evil
    made["provenance"][0] |= {"file": evil, "command": evil, "facts": [[evil, evil]]}
    return made


def large(tasks: int = 12, models: int = 3, layers: int = 25) -> dict[str, Any]:
    """A large study: for each task the maps of every model, its curves, spans and losses."""
    sections = []
    for t in range(tasks):
        for m in range(models):
            tag, names = f"t{t}m{m}", ("ORIG-ORIG", "FT-ORIG", "FT-FT")
            about: dict[str, Any] = {"task": f"task-{t}"}
            sections += [
                map_section(f"{tag}-map", tuned=f"model-{m}", layers=layers, names=names, **about),
                curves_section(f"{tag}-curves", model=f"model-{m}", depth=layers - 1, names=4, **about),
                spans_section(f"{tag}-spans", model=f"model-{m}", depth=layers - 1, **about),
                lines_section(f"{tag}-lines", steps=200, **about),
            ]
    return document(sections)
