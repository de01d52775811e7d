"""How is HellaSwag's text freed of WikiHow's marks? As in the copies that come preprocessed."""

from __future__ import annotations

import re


def plain_context(first: str, second: str) -> str:
    """Put the two parts of HellaSwag's context together as evaluations do."""
    return without_marks(f"{first} {second.capitalize()}").strip()


def without_marks(text: str) -> str:
    """Take the marks of WikiHow out: a title ends a sentence, others say nothing."""
    text = re.sub(r"\.? \[title\]", ". ", text.strip())
    return re.sub(r"\[.*?\]", "", text).replace("  ", " ")
