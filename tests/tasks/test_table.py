from __future__ import annotations

import subprocess
import sys

import pytest

from microtome.tasks.table import TASKS, names, resolve


@pytest.mark.parametrize(
    "typed, name",
    [
        ("rte", "rte"),
        ("SST-2", "sst2"),
        ("sts-b", "stsb"),
        ("CoLA", "cola"),
        ("ewt_parsing", "ewt-parsing"),
        ("parsing", "ewt-parsing"),
        ("SemEval2010-8", "semeval2010-8"),
        ("squad_v2", "squad2"),
        ("Language Modeling", "language-modeling"),
    ],
)
def test_names_people_use(typed: str, name: str) -> None:
    assert resolve(typed) == name


def test_a_name_that_is_none() -> None:
    assert resolve("qnly") is None
    assert "rte" in names()
    assert "polarity" in names()
    assert len(TASKS) == 22


def test_the_table_is_cheap_to_look_at() -> None:
    script = (
        "import sys\nfrom microtome.tasks.table import TASKS\nfrom microtome.tasks.loading import task\n"
        "list(TASKS)\n"
        "heavy = ('torch', 'transformers', 'datasets', 'pandas', 'sklearn', 'scipy')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
