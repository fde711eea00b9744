"""What imports and bulk operations read: the objects under a prefix of a bucket, record by record.

A prefix that holds an export (a manifest-files.json) means the data files of its manifest, whose
checksums are compared first; so an export can be named as a whole. Otherwise every object counts,
as on AWS.

Thread safety: a Source belongs to one thread.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

from dynalsm.limits import IMPORT_MAX_OBJECTS
from dynalsm.model import formats
from dynalsm.model.buckets import BadKey, Bucket
from dynalsm.model.formats import CsvOptions, ObjectProblem, Row

MANIFEST: Final = "manifest-files.json"
READ_BYTES: Final = 1 << 20


class NoObjects(Exception):
    """Nothing lies under the prefix, or too much."""


@dataclass(frozen=True)
class Object:
    """One object to be read. `md5` is what its manifest says, None without one."""

    key: str
    size_bytes: int
    md5: str | None = None


class Source:
    """The objects of one import."""

    def __init__(
        self, bucket: Bucket, prefix: str, kind: str, compression: str, csv: CsvOptions
    ) -> None:
        """Raises: NoObjects."""
        self._bucket = bucket
        self._kind = kind
        self._compression = compression
        self._csv = csv
        found = list(bucket.keys(prefix))
        manifests = [key for key, _ in found if key.rpartition("/")[2] == MANIFEST]
        if manifests:
            self.objects = [each for key in manifests for each in self._listed(key)]
        else:
            self.objects = [Object(key, size) for key, size in found]
        if not self.objects:
            raise NoObjects("The given import source contains no objects")
        if len(self.objects) > IMPORT_MAX_OBJECTS:
            raise NoObjects(f"The given import source has more than {IMPORT_MAX_OBJECTS} objects")

    @property
    def size_bytes(self) -> int:
        """The size of all objects as they are stored."""
        return sum(each.size_bytes for each in self.objects)

    def rows(self, source: Object) -> Iterator[Row]:
        """Yield the records of one object. Raises: ObjectProblem."""
        with open(self._bucket.path(source.key), "rb", READ_BYTES) as file:
            if source.md5 is not None and _md5(file) != source.md5:
                raise ObjectProblem(0, "The object's MD5 is not that of the manifest")
            file.seek(0)
            yield from formats.read(file, self._kind, self._compression, self._csv)

    def _listed(self, manifest: str) -> Iterator[Object]:
        """Yield the data files of a manifest, wherever the export has been copied to."""
        directory = manifest.removesuffix(MANIFEST)
        with open(self._bucket.path(manifest), "rb") as file:
            for line in file:
                entry = orjson.loads(line)
                key = entry["dataFileS3Key"]
                if not self._exists(key):
                    key = f"{directory}data/{key.rpartition('/')[2]}"
                size = os.path.getsize(self._bucket.path(key)) if self._exists(key) else 0
                yield Object(key, size, entry.get("md5Checksum"))

    def _exists(self, key: str) -> bool:
        try:
            return os.path.isfile(self._bucket.path(key))
        except BadKey:
            return False


def _md5(file: Any) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    while piece := file.read(READ_BYTES):
        digest.update(piece)
    return base64.b64encode(digest.digest()).decode()


def explain(problem: Exception) -> str:
    """Return what PutItem would say about a record that is no item of the table."""
    # The texts of validation are the API's; nothing else of it is needed here.
    from dynalsm.api import as_api_error

    translated = as_api_error(problem, "PutItem")
    return str(problem) if translated is None else translated.message
