"""Are the checkpoints of a training found in the order of their steps?"""

from __future__ import annotations

from pathlib import Path

import pytest

import microtome as mt
import tiny
from microtome.encoders.series import series
from microtome.errors import InputError


def test_checkpoints_come_in_the_order_of_steps_and_load_when_asked(tmp_path: Path) -> None:
    for step in (1000, 20, 300):
        tiny.save_checkpoint(tmp_path / "run" / f"checkpoint-{step}", "bert", seed=step)
    (tmp_path / "run" / "runs-7").mkdir()  # no checkpoint
    found = series(tmp_path / "run")
    assert found.steps == (20, 300, 1000)
    assert [encoder.name for encoder in found] == ["run-20", "run-300", "run-1000"]
    assert len({encoder.digest for encoder in found}) == 3
    maps = mt.compare(list(found), on=tiny.TEXT * 3, rows="mean", measures="linear_cka", keep=False)
    assert maps["linear_cka"].shape == (12, 12)


def test_revisions_are_steps_too() -> None:
    found = series("owner/model", revisions=["step_500", "step_20"])
    assert (found.steps, found.revisions) == ((20, 500), ("step_20", "step_500"))


def test_what_is_no_series_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a series of checkpoints must be a folder that exists"):
        series(tmp_path / "none")
    with pytest.raises(
        InputError, match="must hold checkpoints whose names end in a step, but there is none"
    ):
        series(tmp_path)
    with pytest.raises(
        InputError, match="a checkpoint's name must be one that ends in its step, but got 'main'"
    ):
        series("owner/model", revisions=["main"])
    for name in ("seed-1", "seed-2"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "config.json").write_text("{}")
    with pytest.raises(InputError, match=r"must be of one training, but .* holds several; .* as .*seed-1"):
        series(tmp_path / "runs")
    for name in ("a-5", "b-5"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    with pytest.raises(InputError, match="must differ, but 5 stands twice"):
        series(tmp_path)
