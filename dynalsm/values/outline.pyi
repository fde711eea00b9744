from typing import final

@final
class Outline:
    """The names of a map, ready to be compared and copied."""

    def __init__(self, texts: list[str]) -> None: ...

def _use_places(wanted: bool) -> bool:
    """Let new outlines put values straight into dicts, or not (tests); return whether they do."""

def _names_alive() -> int:
    """Return how many names all outlines together keep (tests)."""
