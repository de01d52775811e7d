"""The verb `figure`: a figure or table of a paper, drawn from the results of a study."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..context import Context
from ..errors import must
from ..options import option
from .show import JsonOption, QuietOption
from .tools import Tool

WIDE = ("column", "page", "slide")


@dataclass(frozen=True, kw_only=True)
class Figure(QuietOption, JsonOption, Tool):
    """Draw a figure or table in the layout of a paper from what the store, or a report, has of a study."""

    study: str = option(
        "Study: a name of `microtome ls studies`, a TOML file, or a folder of `microtome study report`.",
        argument=True,
        metavar="STUDY_OR_DIR",
    )
    layout: str = option(
        "Name or number of `microtome ls layouts`.",
        metavar="NAME",
        example="phang2021:truncation",
    )
    out: Path = option("File: .pdf, .svg or .png; of a table .csv, .tex or .md.", metavar="FILE", read=Path)
    wide: str = option("Width: 84 mm, 174 mm or a slide.", "column", choices=WIDE)
    model: str | None = option("One model of the study; all when absent.", None, metavar="NAME")
    task: str | None = option("One task of the study; all when absent.", None, metavar="NAME")
    measure: str | None = option("Measure of maps; the paper's own when absent.", None, metavar="NAME")
    size: str | None = option(
        "Size of a study of the package: small, core or full [default: small].", None, metavar="SIZE"
    )
    data: str | None = option("Folder with the original files of tasks, as in the run.", None, metavar="DIR")
    store: str | None = option("Folder of the store.", None, metavar="DIR")

    def run(self, context: Context) -> None:
        """Draw, and print the caption and the files."""
        from ..figures.layouts.table import draw_layout
        from ..studies.claims import read_claims
        from ..studies.file import study
        from ..studies.results import open_results

        if os.path.isdir(self.study):
            for name in ("size", "data", "store"):
                if getattr(self, name) is not None:
                    raise must(f"--{name}", "left out for the folder of a report", getattr(self, name))
            results = open_results(self.study)
        else:
            results = study(self.study, size=self.size, data=self.data).results(self.store)
        claims = read_claims(results.claims) if results.claims else None
        chosen: dict[str, Any] = {name: getattr(self, name) for name in ("wide", "model", "task", "measure")}
        figure, beside = draw_layout(
            results, self.layout, self.out, **chosen, claims=claims, command=context.command
        )
        caption = beside.read_text(encoding="utf-8").strip()
        document = {"format": "microtome/figure/1", "figure": str(figure), "caption": caption}
        self.screen.listing(document, ([], [], [caption, f"Written to {figure}, its caption to {beside}"]))
