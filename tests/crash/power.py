"""What a power cut may leave of a recorded run: a disk in memory, rebuilt from the recording.

`Disk` replays the entries of `stop_recording()` one by one; `Disk.crash()` returns one of the
states the directory may be in if the power goes now, `write_state()` puts it into a real one.

Two models of what lasts:

    strict  POSIX and nothing more. Bytes last after a sync of their file, a name after a sync of
            its directory. Each change of a name that was not synced is there or not, whatever
            happened to the others.
    ext4    a journal: changes of names last in the order they were made, and any sync makes all
            earlier ones last.

In both, what was written since the last sync of a file is there or not, sector by sector (512 bytes
or 4 KiB), each sector as it was after any of the writes, and the size may be any of those the file
has had since. So writes are torn, and reordered within and between files.

A rename is atomic. Names removed and not synced come back with the file as it then is.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

# As the seam records: (kind, path, path2, offset, data).
Entry = tuple[str, str, str | None, int, bytes | None]
# Relative path -> content, or None for a directory.
State = dict[str, bytes | None]

MODELS = ("strict", "ext4")
# How the unsynced bytes of one state are chosen.
LOST, KEPT, MIXED, TORN = "lost", "kept", "mixed", "torn"
CHOICES = (LOST, KEPT, MIXED, TORN)
SECTORS = (512, 4096)


@dataclass
class Node:
    """A file."""

    durable: bytes = b""
    current: bytearray = field(default_factory=bytearray)
    # Since the last sync: ("data", offset, bytes) or ("size", size, b"").
    pending: list[tuple[str, int, bytes]] = field(default_factory=list)

    def write(self, offset: int, data: bytes) -> None:
        self.current.extend(bytes(max(0, offset + len(data) - len(self.current))))
        self.current[offset : offset + len(data)] = data
        self.pending.append(("data", offset, data))

    def resize(self, size: int) -> None:
        del self.current[size:]
        self.current.extend(bytes(size - len(self.current)))
        self.pending.append(("size", size, b""))

    def reserve(self, size: int) -> None:
        if size > len(self.current):
            self.resize(size)

    def sync(self) -> None:
        self.durable = bytes(self.current)
        self.pending.clear()

    def crash(self, rng: random.Random, choice: str, unit: int) -> bytes:
        """One of the contents the file may have."""
        if choice == LOST or not self.pending:
            return self.durable
        if choice == KEPT:
            return bytes(self.current)
        if choice == TORN:  # the writes in order, the last one only up to some sector
            return self._torn(rng, unit)
        return self._mixed(rng, unit)

    def _torn(self, rng: random.Random, unit: int) -> bytes:
        content = bytearray(self.durable)
        count = rng.randrange(len(self.pending) + 1)
        for change in self.pending[: max(0, count - 1)]:
            _apply(content, change)
        if count:
            kind, place, data = self.pending[count - 1]
            if kind == "data":
                first = place // unit
                sectors = (place + len(data) - 1) // unit - first + 1
                data = data[: max(0, (first + rng.randrange(sectors + 1)) * unit - place)]
            _apply(content, (kind, place, data))
        return bytes(content)

    def _mixed(self, rng: random.Random, unit: int) -> bytes:
        sizes = [len(self.durable)]
        highest = len(self.durable)
        for kind, place, data in self.pending:
            sizes.append(place if kind == "size" else max(sizes[-1], place + len(data)))
            highest = max(highest, sizes[-1])
        size = rng.choice(sizes) if rng.random() < 0.8 else rng.randint(min(sizes), highest)
        content = bytearray(self.durable.ljust(highest, b"\0"))
        # How many of the pending writes have reached each sector.
        reached: dict[int, int] = {}
        count = len(self.pending)
        bias = rng.random()
        for number, (kind, place, data) in enumerate(self.pending):
            start, end = (place, highest) if kind == "size" else (place, place + len(data))
            for sector in range(start // unit, (end + unit - 1) // unit):
                if sector not in reached:
                    dice = rng.random()
                    reached[sector] = (
                        0
                        if dice < 0.8 * bias
                        else count
                        if dice < 0.8
                        else rng.randrange(count + 1)
                    )
                if number >= reached[sector]:
                    continue
                low, high = max(start, sector * unit), min(end, (sector + 1) * unit)
                if kind == "size":
                    content[low:high] = bytes(high - low)
                else:
                    content[low:high] = data[low - place : high - place]
        del content[size:]
        return bytes(content)


def _apply(content: bytearray, change: tuple[str, int, bytes]) -> None:
    kind, place, data = change
    end = place if kind == "size" else place + len(data)
    content.extend(bytes(max(0, end - len(content))))
    if kind == "size":
        del content[place:]
    else:
        content[place:end] = data


@dataclass
class Folder:
    """A directory: names as they are, and as they last."""

    names: dict[str, Node | Folder] = field(default_factory=dict)
    durable: dict[str, Node | Folder] = field(default_factory=dict)
    # Since the last sync: (journal position, [(name, node or None for removed), ...]), atomic each.
    pending: list[tuple[int, list[tuple[str, Any]]]] = field(default_factory=list)

    def change(self, position: int, *changes: tuple[str, Any]) -> None:
        _apply_names(self.names, changes)
        self.pending.append((position, list(changes)))

    def settle(self, upto: int) -> None:
        """Make the changes before the journal's position last."""
        while self.pending and self.pending[0][0] < upto:
            _apply_names(self.durable, self.pending.pop(0)[1])

    def crash(self, keeps: Callable[[int], bool]) -> dict[str, Node | Folder]:
        names = dict(self.durable)
        for position, changes in self.pending:
            if keeps(position):
                _apply_names(names, changes)
        return names


def _apply_names(names: dict[str, Any], changes: Iterable[tuple[str, Any]]) -> None:
    for name, node in changes:
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class Disk:
    """The directory `root` while a recording is replayed."""

    def __init__(self, root: str, state: State | None = None) -> None:
        """`state` is what was there, durably, when the recording began (default: nothing)."""
        self.root = os.path.abspath(root)
        # Stands for the parent of the root, so that the root's own name can be lost as well.
        self.top = Folder()
        self.journal = 0
        if state is not None:
            self._load(state)

    def _load(self, state: State) -> None:
        base = os.path.basename(self.root)
        self.top.names[base] = self.top.durable[base] = Folder()
        for path in sorted(state):
            content = state[path]
            folder, name = self._find(os.path.join(self.root, path))
            assert folder is not None
            node: Node | Folder = Folder()
            if content is not None:
                node = Node(content, bytearray(content))
            folder.names[name] = folder.durable[name] = node

    def _find(self, path: str) -> tuple[Folder | None, str]:
        """The folder that holds `path` now, and the name in it."""
        path = os.path.normpath(path)
        if path == self.root:
            return self.top, os.path.basename(path)
        if not path.startswith(self.root + os.sep):
            return None, ""
        folder: Any = self.top.names.get(os.path.basename(self.root))
        *parents, name = path[len(self.root) + 1 :].split(os.sep)
        for parent in parents:
            folder = folder.names.get(parent) if isinstance(folder, Folder) else None
        return (folder, name) if isinstance(folder, Folder) else (None, "")

    def _node(self, path: str) -> Node | None:
        folder, name = self._find(path)
        node = folder.names.get(name) if folder is not None else None
        return node if isinstance(node, Node) else None

    def _folders(self) -> Iterator[Folder]:
        waiting: list[Any] = [self.top]
        while waiting:
            folder = waiting.pop()
            yield folder
            seen = [*folder.names.values(), *folder.durable.values()]
            seen += [node for _, changes in folder.pending for _, node in changes]
            waiting += {id(each): each for each in seen if isinstance(each, Folder)}.values()

    def apply(self, entry: Entry) -> None:
        """Do what the entry says; entries of other directories do nothing."""
        kind, path, path2, offset, data = entry
        if kind in {"create", "mkdir"}:
            self._change(path, Node() if kind == "create" else Folder())
        elif kind in {"remove", "rmdir"}:
            self._change(path, None)
        elif kind in {"rename", "link"}:
            self._move(kind, path, str(path2))
        elif kind == "dirsync":
            folder, name = self._find(path)
            if folder is not None and isinstance(found := folder.names.get(name), Folder):
                found.settle(self.journal + 1)
                self._commit()
            elif os.path.normpath(path) == os.path.dirname(self.root):
                self.top.settle(self.journal + 1)
                self._commit()
        elif (node := self._node(path)) is not None:
            if kind in {"write", "map_write"}:
                node.write(offset, data or b"")
            elif kind == "truncate":
                node.resize(offset)
            elif kind == "allocate":
                node.reserve(offset)
            elif kind == "sync":
                node.sync()
                self._commit()

    def _change(self, path: str, node: Any) -> None:
        folder, name = self._find(path)
        if folder is not None:
            self.journal += 1
            folder.change(self.journal, (name, node))

    def _move(self, kind: str, old: str, new: str) -> None:
        source, old_name = self._find(old)
        target, new_name = self._find(new)
        if target is None:
            return  # out of the root: a checkpoint's link
        node = source.names.get(old_name) if source is not None else None
        if node is None:
            node = Folder()  # from outside of the root: not followed
        self.journal += 1
        if kind == "link" or source is None:
            target.change(self.journal, (new_name, node))
        elif source is target:
            target.change(self.journal, (new_name, node), (old_name, None))
        else:
            target.change(self.journal, (new_name, node))
            source.change(self.journal, (old_name, None))

    def _commit(self) -> None:
        self.committed = self.journal

    committed = 0  # the journal's position at the last sync of anything

    def crash(
        self, rng: random.Random, model: str = "strict", choice: str = MIXED, unit: int = 512
    ) -> State:
        """One state the power cut may leave. LOST and KEPT are the two ends of what may be."""
        kept: dict[int, bool] = {}
        limit = rng.randint(self.committed, self.journal)
        share = rng.random()

        def keeps(position: int) -> bool:
            if choice == KEPT:
                return True
            if model == "ext4":
                return position <= (self.committed if choice == LOST else limit)
            if choice == LOST:
                return False
            return kept.setdefault(position, rng.random() < share)

        state: State = {}
        root = self.top.crash(keeps).get(os.path.basename(self.root))
        waiting = [("", root)] if isinstance(root, Folder) else []
        while waiting:
            prefix, folder = waiting.pop()
            for name, node in sorted(folder.crash(keeps).items()):
                if isinstance(node, Folder):
                    state[prefix + name] = None
                    waiting.append((prefix + name + os.sep, node))
                else:
                    one = rng.choice(CHOICES) if choice == MIXED else choice
                    state[prefix + name] = node.crash(rng, one, unit)
        return state

    def exists(self) -> bool:
        """Whether the root is there for the process."""
        return os.path.basename(self.root) in self.top.names

    def now(self) -> State:
        """The state as the process sees it: what is left when the process is killed."""
        return self.crash(random.Random(0), choice=KEPT)


def write_state(state: State, target: str) -> None:
    """Make the directory `target` look like the state, and nothing else."""
    shutil.rmtree(target, ignore_errors=True)
    os.mkdir(target, 0o700)
    for path in sorted(state):
        place = os.path.join(target, path)
        content = state[path]
        if content is None:
            os.mkdir(place, 0o700)
        else:
            with open(place, "wb") as file:
                file.write(content)


def read_state(source: str) -> State:
    """The state of a real directory."""
    state: State = {}
    for root, directories, names in os.walk(source):
        relative = os.path.relpath(root, source)
        prefix = "" if relative == "." else relative + os.sep
        for name in directories:
            state[prefix + name] = None
        for name in names:
            with open(os.path.join(root, name), "rb") as file:
                state[prefix + name] = file.read()
    return state


def without_syncs(entries: list[Entry], part: str, kind: str = "sync") -> list[Entry]:
    """The recording of a program that forgot to sync the paths that hold `part`."""
    return [each for each in entries if not (each[0] == kind and part in each[1])]
