"""Files of claims are read strictly, and those of the package state what was published."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

import microtome as mt
from microtome.cli import main
from microtome.errors import InputError, MicrotomeError, UnknownNameError
from microtome.experiments.citations import CITATIONS
from microtome.findings.results import plain
from microtome.studies.claims import StudyClaim, claims_of, read_claim, read_claims, shipped_claims
from microtome.studies.file import shipped_studies, study_of
from microtome.studies.statistics.table import STATISTICS

CLAIM = {
    "id": "a",
    "statement": "A model is good.",
    "experiment": "truncate",
    "statistic": "score",
    "arguments": {"point": {"arm": "UNTUNED"}},
    "least": 50,
}
SHIPPED = {(paper, claim.id): claim for paper in shipped_claims() for claim in read_claims(paper).claims}


def claims(**changes: Any) -> tuple[StudyClaim, ...]:
    return read_claims([{**CLAIM, **changes}]).claims


def test_five_papers_have_claims() -> None:
    assert shipped_claims() == ("merchant2020", "phang2021", "sajjad2020", "tamkin2020", "wu2020")


@pytest.mark.parametrize("claim", SHIPPED.values(), ids=lambda claim: f"{claim.source.split()[0]} {claim.id}")
def test_shipped_claims_are_whole(claim: StudyClaim) -> None:
    assert claim.statistic in STATISTICS
    assert claim.source.partition(" ")[0] in CITATIONS
    assert claim.statement.endswith(".")
    assert claim.published != ""
    assert not re.search(r"[{}]", f"{claim.id}{claim.statement}{claim.published}{claim.reading}")
    assert not re.search(r"\{[a-z]", str(claim.arguments))
    assert claim.least > -math.inf or claim.most < math.inf
    if isinstance(claim.published, int | float):
        assert claim.within is not None


def test_the_table_of_wu_has_forty_numbers() -> None:
    table = [
        claim for (paper, name), claim in SHIPPED.items() if paper == "wu2020" and name.startswith("T1-")
    ]
    assert len(table) == 40
    cells = {
        (c.models, c.tasks, c.arguments["point"]["arm"], c.arguments["point"]["x"]): c.published
        for c in table
    }
    assert len(cells) == 40
    assert cells[("bert",), ("sst2",), "bottom", 6] == 93.0
    assert cells[("xlnet",), ("qqp",), "bottom", 6] == 89.02
    assert math.fsum(map(float, cells.values())) == pytest.approx(3583.15)


def test_the_pair_of_phang() -> None:
    full, cut = (SHIPPED["phang2021", f"E2-{name}"] for name in ("full", "cut 4"))
    assert (full.published, cut.published) == (96.1, 95.5)
    assert (full.models, full.tasks) == (("roberta",), ("yelp",))
    assert (full.least, full.most) == pytest.approx((95.1, 97.1))


@pytest.mark.parametrize("paper", shipped_claims())
def test_claims_have_a_version_and_a_digest(paper: str) -> None:
    sheet = read_claims(paper)
    assert sheet.version >= 1
    assert re.fullmatch("[0-9a-f]{12}", sheet.digest)


def test_the_digest_follows_the_content() -> None:
    first, same, other = (read_claims([{**CLAIM, "least": least}]).digest for least in (50, 50, 51))
    assert first == same != other


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"leest": 1}, "Did you mean least?"),
        ({"statistic": "scor"}, "Did you mean score"),
        ({"arguments": {"pont": {}}}, "Did you mean point?"),
        ({"arguments": {"point": {"arms": ""}}}, "Did you mean arm?"),
        ({"source": "wu202"}, "Did you mean wu2020?"),
        ({"statistic": "decay", "arguments": {"between": "bases"}}, "Did you mean base?"),
    ],
)
def test_misspelt_names_have_a_suggestion(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UnknownNameError, match=re.escape(words)):
        claims(**changes)


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"id": ""}, "must have a text as id"),
        ({"arguments": {}}, "must have point, which score needs"),
        ({"within": 1.0}, "must have a published number, and no other bound"),
        ({"beside": "probe"}, "must have no beside"),
        ({"statistic": "map agreement", "arguments": {}}, "must name the other experiment as beside"),
        ({"arguments": "point"}, "must be a table"),
        ({"arguments": {"point": "arm"}}, "point in the study must be a table"),
        ({"arguments": {"point": {"x": 1}}}, "arguments.point in the study must have arm"),
        ({"arguments": {"point": {"arm": 3}}}, "arguments.point.arm in the study must be a string"),
        ({"arguments": {"point": {"arm": "a", "x": [1]}}}, "arguments.point.x in the study must be"),
        ({"arguments": {"point": {"arm": "a", "pick": [1]}}}, "arguments.point.pick in the study must be"),
        ({"cells": 3}, "cells in the study must be a list of tables"),
        ({"cells": [3]}, "cells in the study must be a table"),
        ({"cells": [{"arguments": 3}]}, "arguments in the study must be a table"),
        ({"least": "much"}, "least in the study must be a number"),
        ({"most": math.nan}, "most in the study must be a number"),
        ({"apart": "much"}, "apart in the study must be a number"),
        ({"published": math.inf}, "published in the study must be a number"),
        ({"published": [1]}, "published in the study must be a string or a number"),
        ({"models": "roberta"}, "models in the study must be a list of names"),
        ({"tasks": [1]}, "tasks in the study must be a list of names"),
        ({"untrained": "yes"}, "untrained in the study must be true or false"),
        ({"source": 3}, "source in the study must be a string"),
    ],
)
def test_what_a_claim_cannot_be(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(MicrotomeError, match=words):
        claims(**changes)


@pytest.mark.parametrize(
    "table, words",
    [
        ({"claims": 3}, "claims in it must be a list of tables"),
        ({"claims": [3]}, "must be a table"),
        ({"version": "x"}, "version in it must be a whole number"),
        ({"source": 3}, "source in it must be a string"),
        ({"roles": [1]}, "roles in it must be a table"),
        ({"roles": {"masked": "bert"}}, "roles.masked in it must be a list of names"),
    ],
)
def test_what_a_file_of_claims_cannot_be(table: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        claims_of(table, "it")


def test_a_claim_has_a_bound() -> None:
    with pytest.raises(InputError, match="must have a bound: least, most, within or apart"):
        read_claims([{key: value for key, value in CLAIM.items() if key != "least"}])


def test_bounds() -> None:
    (near,) = read_claims(
        [{**{k: v for k, v in CLAIM.items() if k != "least"}, "published": 90, "within": 2}]
    ).claims
    assert (near.least, near.most, near.holds_where) == (88, 92, "within 2")
    (far,) = read_claims([{**{k: v for k, v in CLAIM.items() if k != "least"}, "apart": 1}]).claims
    assert (far.least, far.most, far.holds_where) == (1, -1, "1 from 0 or more")


def test_ids_are_unique() -> None:
    with pytest.raises(InputError, match="ids of their own, but a is there twice"):
        read_claims([CLAIM, CLAIM])


def test_cells_stand_for_claims() -> None:
    cells = [{"k": 4, "published": 91.0}, {"k": 6, "published": 92.0, "tasks": ["rte"]}]
    claim = {**CLAIM, "id": "a-{k}", "statement": "Good with {k}.", "within": 1, "cells": cells}
    claim["arguments"] = {"point": {"arm": "bottom", "x": "{k}"}}
    del claim["least"]
    first, second = read_claims([claim]).claims
    assert (first.id, first.statement, first.arguments["point"]["x"]) == ("a-4", "Good with 4.", 4)
    assert (second.published, second.tasks, first.tasks) == (92.0, ("rte",), ())


def test_roles_are_names_in_studies() -> None:
    sheet = claims_of({"roles": {"bert": ["bert", "bert-base"]}, "claims": [CLAIM]}, "mine")
    assert sheet.expand(["bert", "xlnet"]) == ("bert", "bert-base", "xlnet")


def test_claims_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "claims.toml"
    file.write_text(
        'version = 3\n[[claims]]\nid = "a"\nstatement = "Good."\nexperiment = "skip"\n'
        'statistic = "span growth"\nleast = 0\n'
    )
    sheet = read_claims(file)
    assert (sheet.version, sheet.claims[0].statistic) == (3, "span growth")
    file.write_text("version = ")
    with pytest.raises(InputError, match="must be a file in TOML"):
        read_claims(file)
    with pytest.raises(InputError, match="a file that exists"):
        read_claims("none.toml")
    with pytest.raises(UnknownNameError, match=r"Did you mean wu2020\?"):
        read_claims("wu202")


@pytest.mark.parametrize("claim", list(SHIPPED.values())[::7], ids=lambda claim: claim.id)
def test_claims_survive_json(claim: StudyClaim) -> None:
    assert read_claim(json.loads(json.dumps(plain(claim.document())))) == claim


FULL = [paper for paper in shipped_claims() if "full" in shipped_studies().get(paper, ())]


@pytest.mark.parametrize("paper", FULL)
def test_the_full_study_of_a_paper_has_what_its_claims_read(paper: str) -> None:
    study, sheet = mt.study(paper, size="full"), read_claims(paper)
    tables = {*study.experiments, *(table.verb for table in study.experiments.values())}
    for claim in sheet.claims:
        for experiment in filter(None, (claim.experiment, claim.beside)):
            assert tables & set(sheet.expand([experiment])), (claim.id, experiment)
        for names, there in (
            (claim.models, study.models),
            (claim.against, study.models),
            (claim.tasks, study.tasks),
        ):
            assert not names or set(sheet.expand(names)) & set(there), (claim.id, names)


STUDY: dict[str, Any] = {"models": {"m": {"source": "zoo:masked"}}, "finetune": {}, "tasks": {"polarity": {}}}


def test_claims_of_a_study_are_inline_a_file_or_those_of_its_paper(tmp_path: Path) -> None:
    assert study_of({**STUDY, "paper": "wu2020"}).claims == "wu2020"
    assert study_of({**STUDY, "paper": "devlin2019"}).claims == ()
    assert study_of({**STUDY, "claims": [CLAIM]}).claims == [CLAIM]
    (tmp_path / "mine.toml").write_text("claims = []\n")
    assert study_of({**STUDY, "claims": "mine.toml"}, folder=tmp_path).claims == str(tmp_path / "mine.toml")
    with pytest.raises(UnknownNameError, match=r"Did you mean least\?"):
        study_of({**STUDY, "claims": [{**CLAIM, "lest": 1}]})


def test_ls_lists_claims_and_studies(capsys: pytest.CaptureFixture[str]) -> None:
    for table in ("claims", "studies"):
        assert main(["ls", table, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["format"] == f"microtome/{table}/1"
        names = {entry["paper" if table == "claims" else "study"] for entry in document[table]}
        assert "phang2021" in names
    assert main(["ls", "claims"]) == 0
    assert "block margin" in capsys.readouterr().out
