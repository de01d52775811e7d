"""A report becomes one file, whatever its names and numbers are."""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from microtome.errors import InputError, UnknownNameError
from microtome.report.writing import write_page
from report import page_samples


class _Parsed(HTMLParser):
    """What a browser would see: elements, and the text inside each."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.texts.append("")

    def handle_data(self, data: str) -> None:
        if self.texts:
            self.texts[-1] += data

    @property
    def document(self) -> Any:
        for (tag, attributes), text in zip(self.tags, self.texts, strict=True):
            if tag == "script" and attributes.get("id") == "document":
                if attributes.get("data-coding") == "gzip":
                    text = gzip.decompress(base64.b64decode(text)).decode()
                return json.loads(text)
        raise AssertionError("the page holds no document")


def _written(document: dict[str, Any], folder: Path) -> str:
    return write_page(document, folder / "report.html").read_text(encoding="utf-8")


def test_page_holds_its_document(tmp_path: Path) -> None:
    made = page_samples.small()
    assert _Parsed(_written(made, tmp_path)).document == json.loads(json.dumps(made), parse_float=_seven)


def _seven(text: str) -> float:
    return float(f"{float(text):.7g}")


@settings(max_examples=40, deadline=None)
@given(
    st.text() | st.sampled_from(["</script>", "<!--<script>", "\u2028\u2029", "{{script}}", "]]>", "&lt;"])
)
def test_any_name_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    made = page_samples.document([page_samples.scores_section() | {"title": name}])
    made["title"] = name
    page = _written(made, tmp_path_factory.mktemp("page"))
    parsed = _Parsed(page)
    assert parsed.document["sections"][0]["title"] == name
    assert parsed.document["title"] == name
    # A name adds no element, and no sign that an old parser takes for the end of a line.
    plain = _Parsed(
        _written(page_samples.document([page_samples.scores_section()]), tmp_path_factory.mktemp("p"))
    )
    assert [tag for tag, _ in parsed.tags] == [tag for tag, _ in plain.tags]
    embedded = re.search(r'id="document">(.*)</script>', page)
    assert embedded
    assert not set("<>&\u2028\u2029") & set(embedded[1])


def test_script_cannot_be_ended_from_inside(tmp_path: Path) -> None:
    page = _written(page_samples.hostile(), tmp_path)
    assert page.count("</script>") == 2
    assert page_samples.SCRIPT not in page


def test_lone_surrogate_does_not_stop_the_page(tmp_path: Path) -> None:
    made = page_samples.document([page_samples.scores_section() | {"title": "half \ud800 a sign"}])
    assert _Parsed(_written(made, tmp_path)).document["sections"][0]["title"] == "half ? a sign"


def test_numbers_that_are_not_finite_are_null(tmp_path: Path) -> None:
    section = page_samples.scores_section() | {"rows": [["a", math.nan, math.inf], ["b", -math.inf, 1.0]]}
    found = _Parsed(_written(page_samples.document([section]), tmp_path)).document
    assert found["sections"][0]["rows"] == [["a", None, None], ["b", None, 1.0]]


def test_page_asks_for_nothing_from_outside(tmp_path: Path) -> None:
    parsed = _Parsed(_written(page_samples.small(), tmp_path))
    policy = next(a["content"] for t, a in parsed.tags if t == "meta" and "http-equiv" in a)
    assert policy
    assert policy.startswith("default-src 'none';")
    for _, attributes in parsed.tags:
        for name in ("src", "href", "action"):
            assert (attributes.get(name) or "#").startswith(("#", "data:"))
    style = next(text for (tag, _), text in zip(parsed.tags, parsed.texts, strict=True) if tag == "style")
    assert "url(" not in style
    assert "@import" not in style


def test_same_document_gives_the_same_bytes(tmp_path: Path) -> None:
    first = write_page(page_samples.small(), tmp_path / "a" / "report.html")
    second = write_page(page_samples.small(), tmp_path / "b.html")
    assert first.read_bytes() == second.read_bytes()


def test_findings_can_be_read_without_a_script(tmp_path: Path) -> None:
    made = page_samples.document([], [{"text": "a < b & c", "section": None, "layers": [], "sure": "shown"}])
    assert "<li>a &lt; b &amp; c</li>" in _written(made, tmp_path)


def test_large_page_is_packed_and_stays_small(tmp_path: Path) -> None:
    made = page_samples.large()
    path = write_page(made, tmp_path / "report.html")
    assert path.stat().st_size < 5_000_000
    found = _Parsed(path.read_text(encoding="utf-8")).document
    assert [one["id"] for one in found["sections"]] == [one["id"] for one in made["sections"]]
    value = found["sections"][0]["panels"][1]["measures"][0]["values"][3][4]
    assert value == pytest.approx(made["sections"][0]["panels"][1]["measures"][0]["values"][3][4], rel=1e-4)


def test_what_is_no_report_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    with pytest.raises(InputError, match=r'format of a report must be "microtome/report/1", but got None'):
        write_page({}, file)
    made = page_samples.small()
    del made["findings"]
    with pytest.raises(InputError, match="a report must have findings"):
        write_page(made, file)
    with pytest.raises(UnknownNameError, match=r"kind of section must be one of .* Did you mean curves\?"):
        write_page(page_samples.document([page_samples.curves_section() | {"kind": "curve"}]), file)
    with pytest.raises(
        InputError, match="ids of sections must be different from one another, but got 'spans'"
    ):
        write_page(page_samples.document([page_samples.spans_section()] * 2), file)
    with pytest.raises(InputError, match="id of a section must be none of the page's own"):
        write_page(page_samples.document([page_samples.spans_section("findings")]), file)
    with pytest.raises(InputError, match="a report must hold texts, numbers, lists and mappings"):
        write_page(page_samples.document([page_samples.scores_section() | {"rows": [[object()]]}]), file)
    assert not file.exists()
