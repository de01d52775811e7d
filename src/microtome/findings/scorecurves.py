"""How does a score run over layers, and what does each span cost? Answers in, curves and span maps out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..errors import must
from ..inference.answers import Answers
from ..inference.bands import Bands, difference_bands, score_bands
from ..tasks.scores import find_score
from ..tasks.scores_declare import Score
from .results import Curve, SpanMap, X

Asked = str | Score | Iterable[str | Score]
Failed = tuple[X, int | str, str]  # the point, the seed, and why the run must not be averaged


def score_curve(
    name: str,
    x: Sequence[X],
    answers: Sequence[Answers | None],
    score: Asked,
    labels: Sequence[str] = (),
    *,
    axis: str,
    level: float = 0.95,
    pair_seeds: bool = True,
    failed: Iterable[Failed] = (),
    note: str = "",
    seed: int = 0,
) -> Curve:
    """
    Score what was answered at each point of an axis.

    Parameters
    ----------
    name : str
        Of the curve.
    x : sequence of int, float or str
        Where the points lie; each there once.
    answers : sequence of (Answers or None)
        One a point, all to the same examples, with one seed or several. None where no run is sound.
    score : str, Score or several
        Of several scores the mean is taken.
    labels : sequence of str
    axis : str
        What x is, such as "layers kept".
    level : float
        Of the intervals and of the band.
    pair_seeds : bool
        Whether one seed runs through all points, as with cuts of one tuned model. False for models that were
        trained apart.
    failed : iterable of (x, seed, reason)
        Runs that diverged or collapsed. They are named in the reasons of their point and never averaged,
        also when their answers were handed in.
    note : str
    seed : int
        Of the errors that are drawn for the band.

    Returns
    -------
    Curve

    Examples
    --------
    >>> ids, right = [str(i) for i in range(8)], [1] * 8
    >>> layers = [Answers(ids=ids, targets=right, predictions=[[1] * k + [0] * (8 - k)]) for k in (2, 4, 7)]
    >>> curve = score_curve("UNTUNED", [1, 2, 3], layers, "accuracy", axis="layers kept")
    >>> curve.values.tolist(), curve.low.round(2).tolist()
    ([0.25, 0.5, 0.875], [0.07, 0.22, 0.53])
    """
    sound, said = _sound(x, answers, failed)
    kept = [one for one in sound if one is not None]
    found = score_bands(score, kept, labels, level=level, pair_seeds=pair_seeds, seed=seed) if kept else None
    return _curve(name, x, axis, sound, said, found, level, note)


def difference_curve(
    name: str,
    x: Sequence[X],
    answers: Sequence[Answers | None],
    reference: Answers,
    score: Asked,
    labels: Sequence[str] = (),
    *,
    axis: str,
    level: float = 0.95,
    pair_seeds: bool = True,
    failed: Iterable[Failed] = (),
    note: str = "",
    seed: int = 0,
) -> Curve:
    """
    Subtract the score of a reference from that of each point, example by example.

    Parameters
    ----------
    name, x, answers
        As in `score_curve`. A point whose answers are the reference itself differs by exactly 0.
    reference : Answers
        Such as those of the whole model.
    score, labels, axis, level
        As in `score_curve`.
    pair_seeds : bool
        Whether a seed of a point belongs to the same seed of the reference. Of seeds that are pairs, those
        without a sound run on both sides are left out, and the reasons of the point say so.
    failed, note, seed
        As in `score_curve`.

    Returns
    -------
    Curve
        Values are score(point) - score(reference), in units of the score.
    """
    sound, said = _sound(x, answers, failed)
    # The reference stays itself, also where some of its seeds failed.
    whole = [given is reference for given in answers]
    kept = [reference if same else one for same, one in zip(whole, sound, strict=True) if one is not None]
    found = None
    if kept:
        if pair_seeds and not any(_share_seeds(one, reference) for one in kept):
            told = f"{[list(one.seeds) for one in kept]} and {list(reference.seeds)}"
            raise must("seeds to pair", "named alike on both sides", told)
        found = difference_bands(
            score, kept, reference, labels, level=level, pair_seeds=pair_seeds, seed=seed
        )
    return _curve(name, x, axis, sound, said, found, level, note)


def span_map(
    name: str,
    depth: int,
    answers: Mapping[tuple[int, int], Answers],
    reference: Answers,
    score: Asked,
    labels: Sequence[str] = (),
    *,
    level: float = 0.95,
    pair_seeds: bool = True,
    note: str = "",
    seed: int = 0,
) -> SpanMap:
    """
    Say what skipping each span of blocks costs.

    Parameters
    ----------
    name : str
    depth : int
        Blocks of the model, numbered from 1.
    answers : mapping of (first, last) to Answers
        Without the blocks first..last. Spans that are not there are NaN.
    reference : Answers
        Of the whole model.
    score, labels, level, pair_seeds, note, seed
        As in `difference_curve`.

    Returns
    -------
    SpanMap
        Costs in units of the score, positive where something is lost, whichever way the score runs.
    """
    asked = find_score(score)
    for span in answers:
        if not 1 <= span[0] <= span[1] <= depth:
            raise must("a span", f"first and last of the blocks 1 to {depth}", span)
    if not answers:
        raise must("the number of spans", "at least 1", 0)
    spans = sorted(answers)
    found = difference_bands(
        asked,
        [answers[span] for span in spans],
        reference,
        labels,
        level=level,
        pair_seeds=pair_seeds,
        seed=seed,
    )
    # A difference is point minus reference; a cost turns it around where higher is better.
    sign = -1.0 if asked.higher_is_better else 1.0
    ends = ("low", "high", "band_low", "band_high")
    turned: dict[str, str] = {}
    if sign < 0:
        turned = {"low": "high", "high": "low", "band_low": "band_high", "band_high": "band_low"}
    cells = np.array(spans) - 1
    filled = {}
    for field in ("values", *ends):
        square = np.full((depth, depth), np.nan)
        square[cells[:, 0], cells[:, 1]] = sign * getattr(found, turned.get(field, field))
        filled[field] = square + 0.0  # no -0.0
    full = np.mean([asked.compute(each, reference.targets, labels) for each in reference.predictions])
    said = [f"{_span(span)}: {why}" for span, why in zip(spans, found.reasons, strict=True) if why]
    return SpanMap(
        name=name,
        depth=depth,
        **filled,
        full=float(full),
        level=level,
        unit=found.unit,
        n=found.n,
        seeds=max(found.seeds),
        note=" ".join([*([note] if note else []), *(f"{one}." for one in said)]),
    )


def _span(span: tuple[int, int]) -> str:
    first, last = span
    return f"Without block {first}" if first == last else f"Without blocks {first} to {last}"


def _sound(
    x: Sequence[X], answers: Sequence[Answers | None], failed: Iterable[Failed]
) -> tuple[list[Answers | None], list[str | None]]:
    """The answers of sound runs at each point, and which runs were left out."""
    if len(x) != len(answers):
        raise must("answers", f"one for each of the {len(x)} points", len(answers))
    if len(set(x)) != len(x):
        raise must("points of a curve", "each there once", list(x))
    if not len(x):
        raise must("the number of points", "at least 1", 0)
    by_point: dict[X, dict[int | str, str]] = {}
    for point, seed, reason in failed:
        if point not in x:
            raise must("the point of a failed run", f"one of {list(x)}", point)
        by_point.setdefault(point, {})[seed] = reason
    sound, said = [], []
    for point, one in zip(x, answers, strict=True):
        bad = by_point.get(point, {})
        rest = None if one is None else _without(one, bad)
        named = ", ".join(f"seed {seed} ({why})" for seed, why in bad.items())
        total = len(bad) + (0 if rest is None else len(rest.predictions))
        if rest is None:
            said.append(f"no sound run: {named}" if named else "no sound run")
        else:
            verb = "was" if len(bad) == 1 else "were"
            said.append(f"{len(bad)} of {total} runs {verb} left out: {named}" if bad else None)
        sound.append(rest)
    return sound, said


def _without(one: Answers, bad: Mapping[int | str, str]) -> Answers | None:
    places = [place for place, seed in enumerate(one.seeds) if seed not in bad] if len(one.seeds) else None
    if places is None or len(places) == len(one.predictions):
        return one
    if not places:
        return None
    return replace(
        one, predictions=[one.predictions[p] for p in places], seeds=[one.seeds[p] for p in places]
    )


def _share_seeds(one: Answers, reference: Answers) -> bool:
    if len(one.predictions) == len(reference.predictions) == 1:
        return not (one.seeds and reference.seeds) or one.seeds[0] == reference.seeds[0]
    return bool(set(one.seeds) & set(reference.seeds))


def _curve(
    name: str,
    x: Sequence[X],
    axis: str,
    sound: Sequence[Answers | None],
    said: Sequence[str | None],
    found: Bands | None,
    level: float,
    note: str,
) -> Curve:
    places = [place for place, one in enumerate(sound) if one is not None]
    filled = {}
    for field in ("values", "low", "high", "band_low", "band_high"):
        line = np.full(len(x), np.nan)
        if found is not None:
            line[places] = getattr(found, field)
        filled[field] = line
    seeds, reasons = [0] * len(x), list(said)
    if found is not None:
        for place, count, reason in zip(places, found.seeds, found.reasons, strict=True):
            one = sound[place]
            seeds[place] = count if one is None else min(count, len(one.predictions))
            told = [one for one in (reasons[place], reason) if one]
            reasons[place] = "; ".join(told) or None
    return Curve(
        name=name,
        axis=axis,
        x=tuple(x),
        **filled,
        level=level,
        unit="example" if found is None else found.unit,
        n=0 if found is None else found.n,
        seeds=tuple(seeds),
        reasons=tuple(reasons),
        note=note,
    )
