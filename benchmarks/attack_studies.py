"""A small study with its claims, what can be wrong with both, and the reading of both and of reports."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

STUDY = """
name = "tiny"
claims = "claims.toml"
device = "cpu"

[models]
bert = { source = "../bert", blocks = 3 }

[tasks]
mine = { task = "../mine", column = { text = "words", label = "mood" }, examples = 48, tokens = 8 }

[finetune]
seeds = [1, 2]
set = { steps = 4, batch = 8, longest = 16 }

[experiments.truncate]
base = "{model}"
arms = ["untuned", "tuned"]
head_seeds = "0-1"

[experiments.skip]

[experiments.maps]
verb = "compare"
models = ["{model}", "{tuned}"]
on = "../lines.txt"
measures = ["debiased_cka", "linear_cka"]
rows = "cls"

[resources]
memory = "1GB"

[resources.skip]
minutes = 5
"""
CLAIMS = """
version = 1
source = "phang2021"

[roles]
masked = ["bert", "roberta"]

[[claims]]
id = "C1-{region}"
statement = "Layers of the {region} region are alike."
published = 0.9
reading = "alike: within 0.3"
experiment = "maps"
statistic = "best match"
arguments = { between = "tuned-base", region = "{region}" }
within = 0.3
cells = [{ region = "early" }, { region = "late", within = 0.5 }]

[[claims]]
id = "C2"
statement = "Heads of trained layers score more."
source = "section 4"
experiment = "truncate"
statistic = "score difference"
arguments = { first = { arm = "TUNED", x = "last" }, second = { arm = "TUNED", x = "first" } }
models = ["masked"]
tasks = ["mine"]
least = -0.5

[[claims]]
id = "C3"
statement = "Skipping one block costs little."
experiment = "skip"
statistic = "span cost"
arguments = { spans = { longest = 1 }, reduce = "max" }
most = 0.5

[[claims]]
id = "C4"
statement = "Neighbors are alike before fine-tuning."
experiment = "compare"
statistic = "similarity"
arguments = { first = { between = "base", region = "adjacent" } }
apart = 0.1
untrained = true
"""
LAYOUTS = ("phang2021:truncation", "phang2021:ft-orig", "phang2021:skipping")


def write_study(good: Path) -> None:
    """Write the study and its claims beside the model and the task that they name."""
    (good / "paper").mkdir(exist_ok=True)
    (good / "paper" / "study.toml").write_text(STUDY)
    (good / "paper" / "claims.toml").write_text(CLAIMS)


def _changed(text: str, **lines: str) -> str:
    """A text whose lines that assign a key, named after the table and the key, have another value."""
    for key, value in lines.items():
        assigned = [line for line in text.split("\n") if line.split(" = ")[0] == key]
        text = text.replace(assigned[0], f"{key} = {value}") if assigned else f"{key} = {value}\n{text}"
    return text


def _with(text: str) -> str:
    return f"{STUDY}\n{text}\n"


STUDIES: Mapping[str, str] = MappingProxyType(
    {
        "name-number": _changed(STUDY, name="3"),
        "name-empty": _changed(STUDY, name='""'),
        "title-list": _changed(STUDY, title="[1]"),
        "paper-list": _changed(STUDY, paper="[1]"),
        "claims-number": _changed(STUDY, claims="3"),
        "claims-absent": _changed(STUDY, claims='"nowhere.toml"'),
        "claims-study": _changed(STUDY, claims='"claims-study.toml"'),
        "claims-list": _changed(STUDY, claims="[1]"),
        "claims-zero": _changed(STUDY, claims='"\\u0000"'),
        "device-number": _changed(STUDY, device="3"),
        "device-unknown": _changed(STUDY, device='"abacus"'),
        "data-number": _changed(STUDY, data="3"),
        "data-zero": _changed(STUDY, data='"\\u0000"'),
        "level-word": _changed(STUDY, level='"x"'),
        "level-nan": _changed(STUDY, level="nan"),
        "threads-huge": _changed(STUDY, threads="999999"),
        "threads-word": _changed(STUDY, threads='"two"'),
        "key-unknown": _changed(STUDY, nope="1"),
        "models-number": "models = 3\n" + STUDY.replace("[models]", "[other]"),
        "model-number": _changed(STUDY, bert="3"),
        "model-blocks": _changed(STUDY, bert='{ source = "../bert", blocks = "x" }'),
        "model-revision": _changed(STUDY, bert='{ source = "../bert", revision = 3 }'),
        "model-absent": _changed(STUDY, bert='"./nowhere"'),
        "model-zoo": _changed(STUDY, bert='"zoo:nope"'),
        "model-zero": _changed(STUDY, bert='"\\u0000"'),
        "task-number": _changed(STUDY, mine="3"),
        "task-unknown": _changed(STUDY, mine='"polarty"'),
        "task-column": _changed(STUDY, mine='{ task = "../mine", column = { text = 3 } }'),
        "task-held-out": _changed(STUDY, mine='{ task = "../mine", held_out = "x" }'),
        "task-train-size": _changed(STUDY, mine='{ task = "../mine", train_size = -1 }'),
        "task-tokens": _changed(STUDY, mine='{ task = "../mine", tokens = "x" }'),
        "task-examples": _changed(STUDY, mine='{ task = "../mine", examples = nan }'),
        "task-text": _changed(STUDY, mine='{ task = "../mine", text = 3 }'),
        "task-pairs": _changed(STUDY, mine='{ task = "../mine", pairs = 3 }'),
        "finetune-list": STUDY.replace("[finetune]", "[[finetune]]"),
        "seeds-word": _changed(STUDY, seeds='"x"'),
        "seeds-huge": _changed(STUDY, seeds='"1-1000000000"'),
        "seeds-table": _changed(STUDY, seeds="{ a = 1 }"),
        "set-number": _changed(STUDY, set="3"),
        "set-steps": _changed(STUDY, set='{ steps = "x" }'),
        "set-unknown": _changed(STUDY, set="{ stepps = 3 }"),
        "recipe-unknown": STUDY.replace("[finetune]", '[finetune]\nrecipe = "nope"'),
        "recipe-number": STUDY.replace("[finetune]", "[finetune]\nrecipe = 3"),
        "arms-unknown": _changed(STUDY, arms='["nope"]'),
        "arms-numbers": _changed(STUDY, arms="[1]"),
        "head-seeds-negative": _changed(STUDY, head_seeds="[-1]"),
        "placeholder-unknown": _changed(STUDY, base='"{modle}"'),
        "placeholder-many": _changed(STUDY, base='"{all_tuned}"'),
        "verb-number": _changed(STUDY, verb="3"),
        "verb-list": _changed(STUDY, verb="[1]"),
        "verb-without-result": _changed(STUDY, verb='"pretrain"'),
        "models-table": _changed(STUDY, models="{ a = 1 }"),
        "on-number": _changed(STUDY, on="3"),
        "on-text-of": _changed(STUDY, on='"{text:nope}"'),
        "measures-unknown": _changed(STUDY, measures='["nope"]'),
        "rows-number": _changed(STUDY, rows="3"),
        "memory-unknown": _changed(STUDY, memory='"lots"'),
        "minutes-nan": _changed(STUDY, minutes="nan"),
        "experiment-number": _with("[experiments]\nchange = 3"),
        "only-number": _with("[experiments.change]\nmodels_only = 3"),
        "only-nested": _with('[experiments.change]\ntasks_only = [["mine"]]'),
        "tuned-seeds": _with("[experiments.change]\ntuned_seeds = [7]"),
        "resources-unknown": _with("[resources.nope]\nminutes = 5"),
        "resources-gpus": _with('[resources.maps]\ngpus = "x"'),
        "resources-infinite": _with("[resources.maps]\ngpus = inf"),
    }
)
BAD_CLAIMS: Mapping[str, str] = MappingProxyType(
    {
        "broken": "[[claims]\n",
        "number": "claims = 3\n",
        "numbers": "claims = [1, 2]\n",
        "twice": _changed(CLAIMS, id='"C2"'),
        "cells-number": _changed(CLAIMS, cells="3"),
        "cells-numbers": _changed(CLAIMS, cells="[3]"),
        "version-word": _changed(CLAIMS, version='"x"'),
        "source-number": _changed(CLAIMS, source="3"),
        "source-unknown": _changed(CLAIMS, source='"phang1921"'),
        "roles-list": "roles = [1]\n" + CLAIMS.replace("[roles]", "[other]"),
        "role-number": _changed(CLAIMS, masked="3"),
        "statistic-unknown": _changed(CLAIMS, statistic='"nope"'),
        "statistic-list": _changed(CLAIMS, statistic="[1]"),
        "arguments-number": _changed(CLAIMS, arguments="3"),
        "argument-unknown": _changed(CLAIMS, arguments='{ between = "nope" }'),
        "argument-number": _changed(CLAIMS, arguments='{ between = 3, region = "late" }'),
        "argument-list": _changed(CLAIMS, arguments='{ between = ["base"], region = "late" }'),
        "within-word": _changed(CLAIMS, within='"x"'),
        "within-nan": _changed(CLAIMS, within="nan"),
        "least-word": _changed(CLAIMS, least='"x"'),
        "least-list": _changed(CLAIMS, least="[1]"),
        "apart-word": _changed(CLAIMS, apart='"x"'),
        "models-number": _changed(CLAIMS, models="3"),
        "tasks-numbers": _changed(CLAIMS, tasks="[1]"),
        "published-list": _changed(CLAIMS, published="[1]"),
        "untrained-word": _changed(CLAIMS, untrained='"x"'),
        "experiment-number": _changed(CLAIMS, experiment="3"),
        "bound-missing": CLAIMS.replace("most = 0.5", ""),
    }
)


def make_bad_studies(place: Path) -> None:
    """Write studies that are wrong, and good ones whose claims are."""
    place.mkdir(parents=True, exist_ok=True)
    good, claims = STUDY.replace("../", "../../good/"), place.parents[1] / "good" / "paper" / "claims.toml"
    for name, text in STUDIES.items():
        text = text.replace("../", "../../good/").replace('"claims.toml"', f'"{claims}"')
        (place / f"{name}.toml").write_text(text)
    for name, text in BAD_CLAIMS.items():
        (place / f"of-claims-{name}.toml").write_text(_changed(good, claims=f'"these-{name}.toml"'))
        (place / f"these-{name}.toml").write_text(text)


def bad_studies() -> list[str]:
    """Names of the files of bad studies."""
    return [f"{name}.toml" for name in STUDIES] + [f"of-claims-{name}.toml" for name in BAD_CLAIMS]


def make_paper(good: Path, place: Path) -> None:
    """The study with what it names, for readers."""
    shutil.copytree(good / "paper", place)
    for name in ("bert", "mine"):
        shutil.copytree(good / name, place.parent / name, dirs_exist_ok=True)
    shutil.copy(good / "lines.txt", place.parent)


def read_study(place: Path) -> None:
    """Plan a study."""
    import microtome as mt

    mt.study(place / "study.toml").plan(place.parent / "shelf")


def make_claims(good: Path, place: Path) -> None:
    """Claims, with a report that they are held against."""
    place.mkdir(parents=True)
    shutil.copy(good / "paper" / "claims.toml", place)
    shutil.copytree(good / "study", place.parent / "study")


def read_claims(place: Path) -> None:
    """Hold results against claims."""
    from dataclasses import replace

    from microtome.studies.results import open_results
    from microtome.studies.scoreboard import open_scoreboard, scoreboard

    results = open_results(place.parent / "study")
    scoreboard(replace(results, claims=str(place / "claims.toml"))).save(place.parent / "board")
    open_scoreboard(place.parent / "board").table()


def make_report(good: Path, place: Path) -> None:
    """The report of a study."""
    shutil.copytree(good / "study", place)
    (place.parent / "claims.toml").write_text(CLAIMS)


def read_report(place: Path) -> None:
    """Read a report of a study, hold it against its claims, and draw figures and tables of it."""
    from dataclasses import replace

    import matplotlib.pyplot as plt

    from microtome.figures.layouts.table import draw_layout
    from microtome.figures.layouts.tables import write_tables
    from microtome.studies.results import open_results
    from microtome.studies.scoreboard import open_scoreboard, scoreboard

    open_scoreboard(place / "scoreboard").table()
    results = open_results(place)
    scoreboard(replace(results, claims=str(place.parent / "claims.toml"))).table()
    write_tables(results, place.parent / "tables")
    try:
        for layout in LAYOUTS:
            draw_layout(results, layout, place.parent / "figure.svg")
    finally:
        plt.close("all")
