"""What the manifest says: trees, files, deleted ranges and where the logs begin. Plain data.

The engine keeps one State beside its versions: recovery builds it from the manifest's edits, every
later edit is applied to it, and a new manifest begins with its `base`. Meaning of an edit's
members (all optional): docs/format.md, "Manifest edits".

Thread safety: none; guarded by engine.admin.
"""

from __future__ import annotations

from typing import Any

from dynalsm import errors
from dynalsm._core import edits as rules

FORMAT = 1
HASH_NAME = "xxh64"

Edit = dict[str, Any]
Place = tuple[int, int]  # tree id, partition id

# Members of a file record ("add"), by position.
TREE, PARTITION, LEVEL, FILE, FILE_BYTES, UNIQUE_ID = range(6)


class State:
    """The sum of all edits."""

    def __init__(self) -> None:
        self.format = FORMAT
        self.next_file = 1
        self.next_tree = 1
        self.next_partition = 1
        self.log = 0  # the lowest log number that may hold something unflushed
        self.flushed = 0  # every seqno up to here is in tables
        self.closed: list[int] = []  # [log number, its size] of the last clean close
        self.begun = 0  # the newest log that is known to have begun durably, as did all before it
        self.trees: dict[int, list[Any]] = {}  # id -> [id, name, hashed, [[partition id, lower]]]
        self.files: dict[Place, dict[int, list[Any]]] = {}
        self.ranges: dict[Place, list[Any]] = {}
        self._tree_names: set[str] = set()

    @classmethod
    def replay(cls, edits: list[Edit], path: str) -> State:
        """The state after the edits of the manifest at `path`.

        Raises CorruptionError for edits that contradict each other, FormatError for what a newer
        version wrote."""
        state = cls()
        for number, edit in enumerate(edits):
            written = edit.get("format") if isinstance(edit, dict) else None
            if isinstance(written, int) and written > FORMAT:
                raise errors.FormatError(
                    f"written in format {written}; this version reads up to {FORMAT}", path=path
                )
            try:
                rules.check(edit)
                state.apply(edit)
            except (KeyError, ValueError) as error:
                raise errors.CorruptionError(
                    f"edit {number} of the manifest contradicts the ones before: {error!r}",
                    path=path,
                ) from error
        if edits and edits[0].get("hash", HASH_NAME) != HASH_NAME:
            raise errors.FormatError(f"unknown key hash {edits[0]['hash']!r}", path=path)
        return state

    def apply(self, edit: Edit) -> None:
        """Add one edit."""
        self.format = edit.get("format", self.format)
        self.next_file = max(self.next_file, edit.get("next", 0))
        self.next_tree = max(self.next_tree, edit.get("next_tree", 0))
        self.next_partition = max(self.next_partition, edit.get("next_partition", 0))
        self.log = max(self.log, edit.get("log", 0))
        self.flushed = max(self.flushed, edit.get("flushed", 0))
        self.closed = edit.get("closed", self.closed)
        self.begun = max(self.begun, edit.get("begun", 0))
        for tree in [edit["tree"]] if "tree" in edit else edit.get("trees", []):
            self._add_tree(tree)
        if "untree" in edit:
            self._drop_tree(edit["untree"])
        if "split" in edit:
            self._split(*edit["split"])
        for tree_id, partition, file_id in edit.get("drop", []):
            del self.files[tree_id, partition][file_id]
        for record in edit.get("add", []):
            self.files[record[TREE], record[PARTITION]][record[FILE]] = record
        for tree_id, partition, ranges in edit.get("ranges", []):
            if (tree_id, partition) not in self.files:
                raise KeyError((tree_id, partition))
            self.ranges[tree_id, partition] = ranges

    def _add_tree(self, tree: list[Any]) -> None:
        tree_id, name, _hashed, partitions = tree
        if tree_id in self.trees or name in self._tree_names:
            raise ValueError(f"tree {tree_id}, {name!r:.100}, exists")
        self.trees[tree_id] = tree
        self._tree_names.add(name)
        self.next_tree = max(self.next_tree, tree_id + 1)
        for partition, _lower in partitions:
            self.files[tree_id, partition] = {}
            self.next_partition = max(self.next_partition, partition + 1)

    def _drop_tree(self, tree_id: int) -> None:
        _id, name, _hashed, partitions = self.trees.pop(tree_id)
        self._tree_names.discard(name)
        for partition, _lower in partitions:
            del self.files[tree_id, partition]
            self.ranges.pop((tree_id, partition), None)

    def _split(self, tree_id: int, partition: int, parts: list[Any]) -> None:
        """Replace a partition by [[id, lower], ...]; its files are named again by "add"."""
        tree = self.trees[tree_id]
        kept = [part for part in tree[3] if part[0] != partition]
        if len(kept) == len(tree[3]):
            raise ValueError(f"tree {tree_id} has no partition {partition}")
        if any((tree_id, new) in self.files for new, _lower in parts):
            raise ValueError(f"tree {tree_id} has partition {parts} already")
        cut = sorted(kept + parts, key=lambda part: part[1])
        rules.check({"tree": [*tree[:3], cut]})
        tree[3] = cut
        ranges = self.ranges.pop((tree_id, partition), None)
        del self.files[tree_id, partition]
        for new, _lower in parts:
            self.files[tree_id, new] = {}
            self.next_partition = max(self.next_partition, new + 1)
            if ranges:
                self.ranges[tree_id, new] = list(ranges)

    @property
    def last_log(self) -> int:
        """The newest log that must be there (if it holds anything unflushed); 0: none."""
        return max(self.begun, self.closed[0] if self.closed else 0)

    def base(self) -> Edit:
        """The whole state as one edit."""
        return {
            "format": self.format,
            "hash": HASH_NAME,
            "next": self.next_file,
            "next_tree": self.next_tree,
            "next_partition": self.next_partition,
            "log": self.log,
            "flushed": self.flushed,
            "closed": self.closed,
            "begun": self.begun,
            "trees": list(self.trees.values()),
            "add": [record for files in self.files.values() for record in files.values()],
            "ranges": [[*place, ranges] for place, ranges in self.ranges.items() if ranges],
        }
