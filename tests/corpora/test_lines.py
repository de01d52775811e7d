"""Are lines read one at a time, and refused where they are none?"""

from __future__ import annotations

from pathlib import Path

import pytest

from microtome.corpora.lines import MOST_BYTES
from microtome.corpora.opening import corpus
from microtome.errors import InputError


def test_a_line_that_no_model_reads_is_refused_before_it_is_cut_into_tokens(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_bytes(b"cat " * (MOST_BYTES // 4) + b"\n")
    with pytest.raises(
        InputError, match=r"line 1 of .* must have at most 10,000,000 bytes, but it has 10,000,001"
    ):
        corpus(path)
