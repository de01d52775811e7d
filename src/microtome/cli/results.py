"""Results on the terminal and in folders: JSON, or tables and findings; files and figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .maps import print_map
from .show import Screen
from .tables import tables_of


def write_result(screen: Screen, result: Any, out: Path | None) -> Any:
    """Note the warnings of a result, and write its files and figures; rows then name the new folder."""
    for sentence in result.warnings:
        screen.note(f"warning: {sentence}{'' if sentence.endswith('.') else '.'}")
    if out is None:
        return result
    kind, draw = getattr(result, "kind", ""), _figures_of(result)
    again = (out / "result.json").is_file()
    written = ", ".join(path.name for path in result.save(out))
    if draw is not None:
        from ..figures.files import remove_earlier

        with screen.working():
            drawn = draw(result, out / "figures")
        if again:
            # Figures of the result that was here before would be taken for those of this one.
            remove_earlier(out / "figures", drawn)
        written += f" and {len(drawn)} figures"
    elif not kind:
        return replace(result, folder=out)
    elif kind == "prune":
        safe = "a smaller model with its card" if result.certified else "no model: no cut is shown to be safe"
        written += f", and {safe}"
    screen.note(f"Written to {out}: {written}.")
    if kind in ("finetune", "prune"):
        from ..training.models.saving import said_of_head

        # Where the head of a written model lies, if stock classes would initialize another one.
        if sentence := said_of_head(out if kind == "prune" else result.runs[0].folder):
            screen.note(sentence)
    return result


def print_result(screen: Screen, result: Any, out: Path | None = None) -> None:
    """Print a result as tables and findings; maps name the folder that holds what does not fit."""
    from ..findings.record import Maps

    if isinstance(result, Maps):
        for similarity_map in result.values():
            print_map(similarity_map, out)
    for head, rows, notes in tables_of(result):
        screen.rows(head, rows, [*notes, ""])
    screen.sentences(_sentences(result, verbose=screen.verbose))


def _sentences(result: Any, *, verbose: bool) -> list[str]:
    """The claims of a result, with the evidence on request, and its sentences that are no claims."""
    from ..findings.claims.render import evidence, headline

    claims = getattr(result, "claims", ())
    if verbose or not any(map(evidence, claims)):
        return list(result.findings)
    lines = [*map(headline, claims), *result.findings[len(claims) :]]
    return [*lines, "--verbose prints the evidence behind these findings."]


def _figures_of(result: Any) -> Callable[[Any, Path], Sequence[Path]] | None:
    """The function that draws a result; None for one that has no figures."""
    from ..figures import heatmap, panels
    from ..findings.record import Maps
    from ..findings.results import Result

    if isinstance(result, Maps):
        return heatmap.save_figures
    return panels.save_figures if isinstance(result, Result) else None
