"""Removal of WikiHow markup from HellaSwag, as in its preprocessed copies."""

from __future__ import annotations

import re


def plain_context(first: str, second: str) -> str:
    """Join the two parts of HellaSwag's context as evaluations do."""
    return without_marks(f"{first} {second.capitalize()}").strip()


def without_marks(text: str) -> str:
    """Remove WikiHow markup: a title ends a sentence, other marks are dropped."""
    text = re.sub(r"\.? \[title\]", ". ", text.strip())
    return re.sub(r"\[.*?\]", "", text).replace("  ", " ")
