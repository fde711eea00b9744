"""What the processes do that are killed: write a history to a file, or serve."""

from __future__ import annotations

import os
import random
from typing import Any

from dynalsm.server import serve as serve_until_signal
from tests.model_based.campaign import Choices, bother, open_tiny
from tests.model_based.faces import Embedded
from tests.model_based.history import Recorder
from tests.model_based.workload import make_tables, run


def write(job: dict[str, Any]) -> None:
    """Call the database from several threads, and note everything in a file."""
    kind, _, seed = job["history"].partition(" ")
    choices = Choices(kind, int(seed))
    database = open_tiny(job["path"], choices.durability)
    face = Embedded(database)
    make_tables(face)
    recorder = Recorder(job["log"])
    with bother(database, random.Random(job["life"])):
        run(choices.callers(face, recorder, int(job["life"])), None)


def serve(job: dict[str, Any]) -> None:
    """Serve the database; the URL goes to a file."""
    database = open_tiny(job["path"], job["durability"])

    def tell(url: str) -> None:
        beside = job["url"] + ".new"
        with open(beside, "w") as file:
            file.write(url)
        os.rename(beside, job["url"])

    with bother(database, random.Random(job["path"])):
        serve_until_signal(database, port=0, on_ready=tell)
