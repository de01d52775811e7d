"""A comparison is read back as it was written, and a file that is not one is refused in words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import microtome as mt
from microtome.errors import InputError
from microtome.findings.maps import Map
from microtome.findings.record import (
    HASHED_BYTES,
    Maps,
    describe_file,
    from_json,
    to_json,
    with_facts,
)
from microtome.inference.estimate import Sides
from microtome.store.outfolder import check_earlier


@pytest.fixture(scope="module")
def maps() -> Maps:
    """Four by three layers with everything a map can hold; the second left layer is constant."""
    rng = np.random.default_rng(3)
    left = [rng.normal(size=(60, 5)) for _ in range(4)]
    right = [one + rng.normal(size=one.shape) for one in left[:3]]
    left[1][:] = 2.0
    found = mt.similarity_matrix(
        left,
        right,
        ["debiased_cka", "svcca:threshold=0.9", "neuron_correlation", "procrustes"],
        clusters=np.repeat(np.arange(20), 3),
        certainty=True,
        halves=4,
        permutations=3,
        names=[f"a/{i}" for i in range(4)],
        right_names=["b\u00e9/0", "b\u00e9/1", 'b"\\/2'],
    )
    return with_facts(
        found, command="microtome similarity 'a b.npy'", inputs=[{"path": "a b.npy", "bytes": 3}]
    )


def assert_same(one: Map, two: Map) -> None:
    for field in fields(Map):
        if field.name == "resamples":
            continue
        check_equal(getattr(one, field.name), getattr(two, field.name), field.name)


def check_equal(one: object, two: object, name: str) -> None:
    if isinstance(one, np.ndarray):
        assert isinstance(two, np.ndarray), name
        assert one.dtype == two.dtype, name
        np.testing.assert_array_equal(one, two, err_msg=name)
    elif isinstance(one, Sides):
        assert isinstance(two, Sides), name
        check_equal(one.left, two.left, name)
        check_equal(one.right, two.right, name)
    elif isinstance(one, (dict, MappingProxyType)):
        assert isinstance(two, Mapping), name
        assert list(one) == list(two), name
        for key in one:
            check_equal(one[key], two[key], f"{name}.{key}")
    else:
        assert one == two, name


def test_what_is_read_is_what_was_written(maps: Maps) -> None:
    back = from_json(to_json(maps))
    assert list(back) == list(maps)
    for name in maps:
        assert_same(maps[name], back[name])
        assert back[name].resamples is None
    assert back["svcca"].kept.left.dtype == np.int64
    assert back["debiased_cka"].provenance["command"] == "microtome similarity 'a b.npy'"


def test_a_map_without_certainty_keeps_its_absences(maps: Maps) -> None:
    bare = replace(maps["procrustes"], low=None, high=None, level=None, method=None, target=None, p_map=None)
    back = from_json(to_json(Maps([bare])))["procrustes"]
    assert_same(bare, back)
    assert back.low is None
    assert back.p_map is None


def test_infinities_survive(maps: Maps) -> None:
    z = maps["debiased_cka"].z.copy()
    z[0, :2] = np.inf, -np.inf
    changed = replace(maps["debiased_cka"], z=z)
    np.testing.assert_array_equal(from_json(to_json(Maps([changed])))["debiased_cka"].z, z)


def test_each_map_keeps_a_provenance_of_its_own(maps: Maps) -> None:
    other = replace(maps["procrustes"], provenance=MappingProxyType({"seed": 9}))
    back = from_json(to_json(Maps([maps["debiased_cka"], other])))
    assert dict(back["procrustes"].provenance) == {"seed": 9}
    assert back["debiased_cka"].provenance["seed"] == 0


def test_the_json_is_strict_and_says_why_cells_are_undefined(maps: Maps) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    read = json.loads(to_json(Maps(list(maps.values()), ["layers differ"])), parse_constant=refuse)
    assert read["format"] == "microtome/similarity/1"
    assert read["findings"] == ["layers differ"]
    assert "kornblith2019" in read["references"]
    first = read["maps"][0]
    assert (first["measure"], first["left"][0], first["right"][2]) == ("debiased_cka", "a/0", 'b"\\/2')
    for i, (values, reasons) in enumerate(zip(first["values"], first["reasons"], strict=True)):
        for value, reason in zip(values, reasons, strict=True):
            assert (value is None) == (reason is not None) == (i == 1)
    assert first["reasons"][1][0] == "a layer is constant over the rows"


@pytest.mark.parametrize(
    "text, words",
    [
        ("{", "strict JSON"),
        ('{"format": "microtome/similarity/1", "maps": [{"n": NaN}]}', "the constant NaN"),
        ('{"format": "microtome/similarity/99", "maps": []}', "microtome/similarity/1"),
        ("[]", "format"),
        ('{"format": "microtome/similarity/1", "maps": [{}]}', "whole maps"),
        ('{"format": "microtome/similarity/1"}', "whole maps"),
    ],
)
def test_what_is_no_record_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        from_json(text)


@pytest.mark.parametrize("name", ["values", "p_map", "reasons"])
def test_tables_must_have_the_shape_of_the_names(maps: Maps, name: str) -> None:
    read = maps.document()
    read["maps"][0][name] = read["maps"][0][name][:-1]
    with pytest.raises(InputError, match=f"{name} of a record must be of the shape"):
        from_json(json.dumps(read))


@pytest.mark.parametrize("name", ["measure", "left", "right"])
@pytest.mark.parametrize("value", [1e25, None, [1e25, 2, None]])
def test_names_must_be_text(maps: Maps, name: str, value: Any) -> None:
    read = json.loads(to_json(maps))
    read["maps"][0][name] = value
    with pytest.raises(InputError, match="a record must"):
        from_json(json.dumps(read))


def test_no_maps_are_no_record() -> None:
    with pytest.raises(InputError, match="at least one map"):
        to_json(Maps([]))


def test_a_folder_holds_the_result_the_table_and_how_it_was_made(maps: Maps, tmp_path) -> None:
    folder = tmp_path / "with a space" / "deep"
    maps.save(folder)
    paths = Maps(list(maps.values()), ["layers *differ*"]).save(folder)
    assert sorted(p.name for p in paths) == sorted(p.name for p in folder.iterdir())
    assert [p.name for p in paths] == ["result.json", "table.parquet", "methods.md", "references.bib"]
    for back in (mt.open(folder), mt.open(folder / "result.json")):
        for name in maps:
            assert_same(maps[name], back[name])
    assert "layers \\*differ\\*" in (folder / "methods.md").read_text(encoding="utf-8")

    table = pq.read_table(folder / "table.parquet").to_pandas()
    assert len(table) == 4 * 4 * 3
    one = table[
        (table.measure == "svcca:threshold=0.9") & (table.left == "a/2") & (table.right == "b\u00e9/1")
    ]
    assert one["value"].item() == maps["svcca"].values[2, 1]
    assert one["kept_left"].item() == maps["svcca"].kept.left[2]
    undefined = table[table.left == "a/1"]
    assert undefined["value"].isna().all()
    assert undefined["reason"].notna().all()


def test_a_folder_that_cannot_be_one_is_refused(maps: Maps, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="a folder to write to must be"):
        maps.save(tmp_path / "file")
    with pytest.raises(InputError, match=r"readable result\.json"):
        mt.open(tmp_path)


def test_a_file_is_known_by_its_content_and_a_large_one_by_size_and_time(tmp_path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(b"layers")
    with large.open("wb") as file:
        file.truncate(HASHED_BYTES + 1)
    assert describe_file(small) == {
        "path": str(small),
        "bytes": 6,
        "sha256": hashlib.sha256(b"layers").hexdigest(),
    }
    said = describe_file(large)
    assert "sha256" not in said
    assert (said["bytes"], said["modified_ns"]) == (HASHED_BYTES + 1, large.stat().st_mtime_ns)
    with pytest.raises(InputError, match="readable file"):
        describe_file(tmp_path / "missing")


def test_a_result_of_the_same_kind_may_be_replaced(tmp_path: Path) -> None:
    check_earlier(tmp_path / "none", "change")
    check_earlier(tmp_path, "change")
    (tmp_path / "result.json").write_text('{"format": "microtome/change/1"}')
    check_earlier(tmp_path, "change")


@pytest.mark.parametrize("content", ["", "[]", "{}", '"microtome/change/1"', '{"format": "mine"}'])
def test_a_file_of_somebody_else_may_not(content: str, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(content)
    with pytest.raises(InputError, match=r"holds result\.json, which microtome did not write there"):
        check_earlier(tmp_path, "change")


def test_a_result_of_another_kind_is_named(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps({"format": "microtome/probing/1"}))
    with pytest.raises(InputError, match=r"one of an earlier `change`, but .* the result of `probing`\."):
        check_earlier(tmp_path, "change")
