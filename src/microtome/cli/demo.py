"""The verb `demo`: small encoders of the package taken apart in a few minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..context import Context
from ..options import option
from .listings import picked
from .show import JsonOption, QuietOption
from .tools import Tool

if TYPE_CHECKING:
    from ..demonstration.running import Demonstration


@dataclass(frozen=True, kw_only=True)
class Demo(QuietOption, JsonOption, Tool):
    """Fine-tune small encoders of the package, compare, cut and prune them, and write a report."""

    out: Path = option(
        "The folder to write into; what is there already is not computed again.",
        Path("demo"),
        metavar="DIR",
        read=Path,
    )
    seeds: Sequence[int] = option("Seeds of fine-tuning, as 1,2 or 1-3.", (1, 2))
    quick: bool = option("Fewer examples and updates: faster, with wider intervals.", False)
    threads: int | None = option("Number of CPU threads.", None)

    def run(self, context: Context) -> None:
        """Run the demonstration, and print its main findings."""
        from ..demonstration.plan import QUICK, WHOLE
        from ..demonstration.running import demonstrate
        from ..runtime import using_threads

        screen = self.screen
        plan = replace(QUICK if self.quick else WHOLE, seeds=tuple(self.seeds))
        with screen.working() as progress, using_threads(self.threads):
            demonstration = demonstrate(self.out, plan, tell=screen.note, context=context.reporting(progress))
        screen.listing(_document(demonstration), ([], [], _sentences(demonstration)))
        if not self.json:
            screen.note(f"Done in {demonstration.seconds:.0f} s.")


def _sentences(demonstration: Demonstration) -> list[str]:
    sentences = []
    for findings in demonstration.findings:
        lines = [f"- {text}" for text in findings.sentences]
        sentences += [f"{findings.name} ({findings.title})", *lines, ""]
    unseen = [model.sentence() for model in demonstration.unseen]
    for text in unseen or ["No model was exported: no cut was shown to be safe."]:
        sentences += [text, ""]
    count = len(demonstration.document["findings"])
    return [*sentences, f"The report, with {count} findings in all: {demonstration.page}"]


def _document(demonstration: Demonstration) -> dict[str, Any]:
    from ..findings.results import plain

    exported = [
        {
            **picked(model, "name", "kept", "depth"),
            "folder": str(model.folder),
            **asdict(model.drop),
            "safe": model.drop.safe,
            "sentence": model.sentence(),
        }
        for model in demonstration.unseen
    ]
    document = {
        "format": "microtome/demo/1",
        "report": str(demonstration.page),
        "findings": [asdict(findings) for findings in demonstration.findings],
        "exported": exported,
        "seconds": demonstration.seconds,
    }
    return plain(document)
