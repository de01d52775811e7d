"""Are rows that are not the same refused, and threads kept to what was asked?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import microtome as mt
import tiny
from microtome.errors import InputError
from microtome.runtime import using_threads


def test_recorded_rows_of_other_words_are_refused(tmp_path: Path) -> None:
    models = [mt.load(tiny.save_checkpoint(tmp_path / f"m{k}", "bert", seed=k)) for k in range(2)]
    here, there = [text.split() for text in tiny.TEXT], [text.split() for text in tiny.TEXT[::-1]]
    store = tmp_path / "store"
    one, two, other = (
        mt.extract(model, texts, store=store)
        for model, texts in ((models[0], here), (models[1], here), (models[1], there))
    )
    assert len(one.rows) == len(other.rows)
    assert mt.similarity_matrix(one.folder, two.folder, "linear_cka")["linear_cka"].n == len(one.rows)
    with pytest.raises(InputError, match="but they were recorded on others: their digests are"):
        mt.similarity_matrix(one.folder, other.folder, "linear_cka")


def test_a_file_of_clusters_with_a_shape_that_no_array_has(tmp_path: Path) -> None:
    file, x = tmp_path / "clusters.npy", np.random.default_rng(0).normal(size=(20, 3))
    with file.open("wb") as raw:
        header = {"descr": "<i8", "fortran_order": False, "shape": (99999999999999999999,)}
        np.lib.format.write_array_header_1_0(raw, header)
    with pytest.raises(InputError, match=r"clusters must be a readable \.npy file, but got"):
        mt.similarity(x, x, clusters=str(file))


def test_threads_hold_for_the_libraries_under_numpy_too() -> None:
    def counts() -> set[int]:
        return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}

    before = counts()
    with using_threads(1):
        assert counts() == {1}
    assert counts() == before
