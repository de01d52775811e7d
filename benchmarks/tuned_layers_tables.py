"""What do all jobs of tuned_layers.py say together? Tables and sentences, composed from the numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from job_files import fill_marks, read_jobs
from tuned_layers_bylayer import (
    Documents,
    change_tables,
    curves_table,
    head,
    line,
    of_kind,
    probe_tables,
    shown,
)
from tuned_layers_claims import (
    FORGOTTEN,
    LARGE,
    MOVED,
    PUBLISHED,
    TAMKIN,
    Claim,
    Number,
    claims,
    learned,
)
from tuned_layers_job import FORMAT, MEASURES

from microtome.findings.words import number

PREFIX = "tuned"


def read(place: Path) -> list[dict[str, Any]]:
    """Read all jobs of a folder or a file."""
    return list(read_jobs(place, FORMAT).values())


def fill(folder: Path, page: Path | None = None) -> str:
    """
    Make all tables of a run, and put them between the marks of a page.

    Parameters
    ----------
    folder : Path
        With the files of the jobs.
    page : Path, optional

    Returns
    -------
    str
        All of them.
    """
    from microtome.errors import InputError

    documents = read(folder)
    if not documents:
        raise InputError(f"{folder} must hold finished jobs, but it has none.")
    found = tables(documents)
    if page is not None:
        fill_marks(page, found)
    return "\n\n".join(found.values())


def tables(documents: Documents) -> dict[str, str]:
    """All tables by the name of their mark; of what was not run, a page keeps what it has."""
    checked = claims(documents)
    made: dict[str, str] = {}
    if of_kind(documents, "task", "tuned"):
        merchant = [one for one in checked if one.name != TAMKIN]
        made |= {
            "verdicts": verdicts(merchant),
            "claims": f"{BOUNDS}\n\n{claims_table(merchant)}",
            "scores": scores_table(documents),
            "change": change_tables(documents),
            "probes": probe_tables(documents),
            "domains": domains_table(documents),
            "freezing": freezing_table(documents),
            "runs": runs_text(documents),
        }
    if of_kind(documents, "redrawn", "curves"):
        tamkin = [one for one in checked if one.name == TAMKIN]
        made |= {
            "curves-verdicts": verdicts(tamkin),
            "curves-claims": claims_table(tamkin),
            "curves": curves_table(documents),
            "curves-runs": curves_text(documents),
        }
    return {f"{PREFIX}-{name}": text or "Not measured." for name, text in made.items()}


MARKS = tuple(
    f"{PREFIX}-{name}"
    for name in (
        *("verdicts", "claims", "scores", "change", "probes", "domains", "freezing", "runs"),
        *("curves-verdicts", "curves-claims", "curves", "curves-runs"),
    )
)
BOUNDS = (
    f"Bounds: a change of the last layer is large above {LARGE:g} (1 - similarity); what is read is "
    f"forgotten where it loses more than {abs(FORGOTTEN):g} points on average over all layers, or over those "
    "of the upper third; change is mainly in the upper third where that holds more of it than if every block "
    f"added as much; most of the model is changed where the middle layer is, above {MOVED:g}. A claim holds "
    "where all of its intervals (95 %, each alone) lie on the claimed side; it does not hold where one, made "
    "wider for the number of them, lies wholly on the other; and else it is inconclusive. Intervals are over "
    "documents, or sentences where there are none, and seeds."
)


def verdicts(checked: Sequence[Claim]) -> str:
    """One sentence a claim and model: by the published measure, and whether the other one agrees."""
    said = []
    for name in dict.fromkeys(one.name for one in checked):
        mine = [one for one in checked if one.name == name]
        by_model = []
        for model in dict.fromkeys(one.model for one in mine):
            each = [one for one in mine if one.model == model]
            first = each[0]
            told = first.verdict if first.parts else f"inconclusive ({first.why})"
            if len(first.by_group) > 1:
                told += f" ({', '.join(f'{thing}: {verdict}' for thing, verdict in first.by_group.items())})"
            others = [one for one in each[1:] if one.verdict != first.verdict]
            apart = "; ".join(f"{one.verdict} by {one.by}" for one in others)
            by_model.append(f"{model}: **{told}**{f' by {first.by} ({apart})' if apart else ''}")
        said.append(f"- {name}, {mine[0].text}: {', '.join(by_model)}.")
    return "\n".join(said)


def claims_table(checked: Sequence[Claim]) -> str:
    """One line a claim, model, measure and number."""
    lines = [
        *head(["claim", "model", "by", "verdict", "number", "claimed", "found, 95 %", "its verdict"]),
    ]
    for one in checked:
        first = [f"{one.name}", one.model, one.by, one.verdict]
        if not one.parts:
            lines.append(line([*first, one.why, "", "", ""]))
        for place, (part, verdict) in enumerate(zip(one.parts, one.verdicts, strict=True)):
            start = first if place == 0 else ["", "", "", ""]
            bound = f"{part.side} {part.bound:.3g}"
            lines.append(line([*start, part.what, bound, shown(part.number, part.digits), verdict]))
    return "\n".join(lines)


def scores_table(documents: Documents) -> str:
    """Scores of tuned models beside a guess; what was not learned is said."""
    tuned = of_kind(documents, "task", "tuned")
    if not tuned:
        return ""
    lines = head(["model", "task", "score", "guess", "mean, 95 %", "seeds", "examples", "judged", "learned"])
    for one in tuned:
        told = one["tuned"]
        runs = ", ".join(
            number(run["score"] if run["score"] is not None else math.nan, 3)
            + (f" ({run['failure']})" if run["failure"] else "")
            for run in told["runs"]
        )
        mean = shown(Number.of(told["mean"]), 3)
        cells = [one["job"]["model"], one["job"]["what"], told["score"], number(told["guess"], 3), mean]
        counts = [runs, f"{told['examples']:,}", f"{told['n']:,}", "yes" if learned(one) else "no"]
        lines.append(line([*cells, *counts]))
    left = [f"{one['job']['model']} on {one['job']['what']}" for one in tuned if not learned(one)]
    if left:
        lines += ["", f"Not surely above a guess, and left out of all verdicts: {'; '.join(left)}."]
    return "\n".join(lines)


def domains_table(documents: Documents) -> str:
    """Similarity of base and tuned on sentences of the task and on others, at equal length."""
    found = of_kind(documents, "task", "domains")
    if not found:
        return ""
    columns = ["pairs", "tokens", "in domain", "out of domain", "out minus in", "p"]
    lines = head(["model", "task", "by", *columns])
    for one in found:
        matched = one["domains"]["matched"]
        for measure in MEASURES:
            told = one["domains"]["average"][measure]
            cells = [f"{matched['pairs']:,}", number(matched["tokens"], 1)]
            cells += [shown(Number.of(told[key]), 3) for key in ("in domain", "out of domain", "difference")]
            p = told["difference"].get("p")
            cells.append("" if p is None else f"{p:.2g}")
            lines.append(line([one["job"]["model"], one["job"]["what"], measure, *cells]))
    return "\n".join(lines)


def freezing_table(documents: Documents) -> str:
    """Scores with the bottom frozen, and what it costs."""
    found = of_kind(documents, "task", "freeze")
    if not found:
        return ""
    lines = head(["model", "task", "blocks frozen", "score, 95 %", "minus nothing frozen"])
    for one in found:
        curves = list(one["freeze"].values())
        for place, k in enumerate(curves[0]["x"]):
            cells = []
            for curve in curves[:2]:
                ends = {
                    key: curve[name][place]
                    for key, name in (("value", "values"), ("low", "low"), ("high", "high"))
                }
                cells.append(shown(Number.of(ends), 3))
            lines.append(line([one["job"]["model"], one["job"]["what"], str(k), *cells]))
    return "\n".join(lines)


def runs_text(documents: Documents) -> str:
    """How much was tuned, how, and where."""
    tuned = of_kind(documents, "task", "tuned")
    runs = sum(len(one["tuned"]["runs"]) for one in tuned)
    told = tuned[0]["options"]
    curves = [next(iter(one["freeze"].values())) for one in of_kind(documents, "task", "freeze")]
    frozen = len(told["seeds"]) * sum(k > 0 for curve in curves for k in curve["x"])
    notes = {one["job"]["what"]: "; ".join(one["tuned"]["notes"]) for one in tuned if one["tuned"]["notes"]}
    said = [
        f"{runs} fine-tunings on a task{f' and {frozen} with the bottom frozen' if frozen else ''}, recipe "
        f"merchant2020 in {told['precision']} with a rate of "
        f"{told['rate']:g}, batches of {told['batch']} and {told['updates']:,} updates whatever the task. "
        f"Layers were compared on {told['rows']:,} tokens of at most {told['sentences']:,} sentences of UD "
        f"English EWT (dev), by {PUBLISHED} as published and by {' and '.join(MEASURES[1:])}. "
        f"{machines(tuned)}."
    ]
    return "\n\n".join([*said, *(f"Data of {task}: {note}." for task, note in notes.items())])


def curves_text(documents: Documents) -> str:
    """How much was redrawn, how, and where."""
    redrawn = of_kind(documents, "redrawn", "curves")
    drawn = sum(len(one["curves"]["runs"]) * len(one["curves"]["x"]) for one in redrawn)
    told = redrawn[0]["options"]
    return (
        f"{drawn:,} fine-tunings with blocks re-initialized, recipe tamkin2020 in {told['precision']} with a "
        f"rate of {told['reinit_rate']:g}, batches of {told['batch']}, {told['reinit_updates']:,} updates on "
        f"{told['reinit_task']} whatever the number of examples and {len(told['reinit_seeds'])} seeds. "
        f"{machines(redrawn)}."
    )


def machines(documents: Documents) -> str:
    """Where jobs ran."""
    return ", ".join(dict.fromkeys(one["machine"] for one in documents))
