"""All targets by name."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Final

from tests.fuzz.loop import Target

CORPUS: Final = Path(__file__).parent / "corpus"

TARGETS: Final = {
    "storage": "storage:Storage",
    "backup": "backup:Backup",
    "catalog": "catalog:Catalog",
    "codec": "codec:Codec",
    "expressions": "expressions:Expressions",
    "partiql": "requests:PartiQL",
    "legacy": "requests:Legacy",
    "tokens": "requests:Tokens",
    "operations": "operations:Operations",
    "imports": "imports:Imports",
    "http": "http:Http",
}


def make(name: str, work: Path) -> Target:
    """Make a target that may use a directory."""
    module, _, kind = TARGETS[name].partition(":")
    target: Target = getattr(importlib.import_module(f"tests.fuzz.{module}"), kind)(work)
    return target
