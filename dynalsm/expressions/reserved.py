"""The reserved words (AWS developer guide, "Reserved words in DynamoDB"; 573 words in words.txt).

Thread safety: read-only after import.
"""

from __future__ import annotations

from importlib import resources
from typing import Final

WORDS: Final[frozenset[str]] = frozenset(
    resources.files("dynalsm.expressions").joinpath("words.txt").read_text("ascii").split()
)


def is_reserved(name: str) -> bool:
    """Tell whether a bare name may not stand in a path, in any mix of case."""
    return name.upper() in WORDS
