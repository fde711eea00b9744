"""Imports point down or sideways inside one folder, never up (docs/architecture.md)."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "dynalsm"

# Layer of each room of the package; a room may import rooms of a lower layer, and itself.
RANK = {
    "_version": 0,
    "errors": 0,
    "limits": 0,
    "type_defs": 0,
    "_core": 2,
    "kv": 3,
    "values": 3,
    "expressions": 4,
    "model": 5,
    "api": 6,
    "conditions": 7,
    "paging": 7,
    "changes": 7,
    "client": 7,
    "resource": 7,
    "snapshots": 7,
    "database": 8,
    "boto": 9,
    "remote": 8,
    "pytest_plugin": 9,
    "aio": 9,
    "telemetry": 9,
    "replicate": 9,
    "server": 9,
    "cli": 10,
}
IMPORT = re.compile(
    r"^(?P<indent>[ ]*)(?:from\s+dynalsm(?:\.(?P<room>\w+))?[\w.]*\s+c?import\s+(?P<names>[\w, ]+)"
    r"|c?import\s+dynalsm\.(?P<direct>\w+))",
    re.M,
)
# What values/ and model/ cimport from the core besides what _core/__init__ shows: inline helpers
# without state.
CORE_HEADERS = {"coding", "hashing", "status", "engine", "cursor"}


def sources() -> list[Path]:
    return [
        path
        for suffix in ("*.py", "*.pyx", "*.pxd")
        for path in sorted(PACKAGE.rglob(suffix))
        if path.parent != PACKAGE or path.stem not in ("__init__", "__main__")
    ]


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(path.suffix)


def imported_rooms(text: str) -> list[tuple[str, bool]]:
    """(room, whether the import is inside a function) of every import of the package."""
    found = []
    for match in IMPORT.finditer(text):
        inside = bool(match["indent"])
        if match["room"] or match["direct"]:
            found.append((match["room"] or match["direct"], inside))
        else:
            found += [(name.strip(), inside) for name in match["names"].split(",")]
    return [(room, inside) for room, inside in found if room in RANK]


def test_every_room_has_a_layer() -> None:
    rooms = {room_of(path) for path in sources()}
    assert rooms - set(RANK) == set()


def test_imports_point_down() -> None:
    upward = [
        f"{path.relative_to(PACKAGE)} imports {room}"
        for path in sources()
        for room, inside in imported_rooms(path.read_text())
        # An import inside a function is how a lower room reaches a face on demand (open(url)).
        if not inside and room != room_of(path) and RANK[room] > RANK[room_of(path)]
    ]
    assert upward == []


def test_the_core_never_sees_an_item() -> None:
    for path in sorted((PACKAGE / "_core").glob("*.p*")):
        rooms = {room for room, _ in imported_rooms(path.read_text())} if path.is_file() else set()
        assert rooms <= {"_core", "errors"}, path.name
