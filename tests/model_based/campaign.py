"""Histories: make one with random choices, check it, and keep it when it is bad.

Four kinds. `embedded`: threads of one process. `http`: the same threads as clients of a server.
`killed`: the process with the threads is killed with SIGKILL, several times in a history.
`killed-http`: the server is killed and started again, and its clients go on; what had a token and
no reply is sent again. Flush, compaction and splits run all the time; the database is in memory or
on the disk.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dynalsm.database import Database, open_path
from dynalsm.server import ServerThread
from tests.crash.items import TINY
from tests.crash.kill import Nursery
from tests.model_based import linear, serial
from tests.model_based.faces import Embedded, Face, Http
from tests.model_based.history import Event, Recorder, Transaction, Versions, dump, read_log
from tests.model_based.linear import Violation
from tests.model_based.workload import Caller, Lists, Singles, final_reads, make_tables, run

Made = tuple[list[Event], dict[str, Versions]]  # A history, and the lists at its end.

READY_LIMIT_SECONDS = 60
# So that threads meet inside of operations and not only between them.
SWITCH_INTERVAL_SECONDS = 5e-5


class Choices:
    """What is chosen at random for one history."""

    def __init__(self, kind: str, seed: int) -> None:
        rng = random.Random(f"{kind} {seed}")
        self.seed = f"{kind} {seed}"
        self.durability = rng.choice(["commit", "commit", "os", "interval"])
        self.threads = rng.randrange(2, 7)
        self.keys = rng.randrange(1, 4)
        self.steps = rng.randrange(10, 40)
        self.kills = rng.randrange(1, 4)
        self.rng = rng

    def callers(self, face: Face, recorder: Recorder, life: int) -> list[Caller]:
        """Half of the callers use single items, half use lists."""
        made: list[Caller] = []
        for number in range(self.threads):
            name = f"{life}-{number}"
            if number % 2:
                made.append(Lists(face, recorder, name, self.seed))
            else:
                made.append(Singles(face, recorder, name, self.seed, self.keys))
        return made


def one_history(kind: str, seed: int, work: str, nursery: Nursery) -> dict[str, int]:
    """Make and check one history. Returns: counts. Raises: Violation, naming a file with it."""
    path = os.path.join(work, "history.db")
    choices = Choices(kind, seed)
    try:
        history, final = MAKERS[kind](path, choices, nursery)
        try:
            singles, transactions = linear.check(history), serial.check(history, final)
        except Violation as violation:
            place = Path(tempfile.mkdtemp(prefix="dynalsm-history-")) / "history.jsonl"
            dump(history, final, place)
            raise Violation(f"{violation}\n(the whole history: {place})") from None
    except BaseException:
        print(f"in history {kind} {seed}", flush=True)
        raise
    finally:
        shutil.rmtree(path, ignore_errors=True)
    done = sum(isinstance(event, Transaction) and bool(event.is_done) for event in history)
    return {
        "histories": 1,
        "single_item_actions": singles,
        "transactions": transactions,
        "of_them_done": done,
        "kills": choices.kills if "killed" in kind else 0,
    }


@contextlib.contextmanager
def bother(database: Database, rng: random.Random) -> Iterator[None]:
    """Flush and compact beside the callers, who take turns in the middle of operations."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(rng.uniform(0, 0.01)):
            rng.choice([database.flush, database.flush, database.compact])()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        sys.setswitchinterval(interval)


def embedded(path: str, choices: Choices, _: Nursery) -> Made:
    """A history of threads in this process."""
    with open_tiny(path, choices.durability) as database:
        return together(database, Embedded(database), choices)


def served(path: str, choices: Choices, _: Nursery) -> Made:
    """A history of the clients of a server."""
    with open_tiny(path, choices.durability) as database, ServerThread(database) as server:
        return together(database, Http(server.url), choices)


def together(database: Database, face: Face, choices: Choices) -> Made:
    """A history of threads in this process; `face` may be broken on purpose."""
    recorder = Recorder()
    make_tables(face)
    with bother(database, choices.rng):
        run(choices.callers(face, recorder, 0), choices.steps)
    final = final_reads(face, recorder, choices.keys)
    return recorder.close(), final


def open_tiny(path: str, durability: str) -> Database:
    return open_path(path, durability=durability, **TINY)


def killed(path: str, choices: Choices, nursery: Nursery) -> Made:
    """A history of a process that is killed and followed by another one, several times."""
    history: list[Event] = []
    job = {"run": "tests.model_based.victims:write", "path": path, "log": f"{path}-log"}
    for life in range(choices.kills):
        job |= {"history": choices.seed, "life": str(life)}
        nursery.run(job, choices.rng.uniform(0.05, 0.25))
        with contextlib.suppress(FileNotFoundError):
            history += read_log(job["log"], time.monotonic_ns())
            os.unlink(job["log"])
    recorder = Recorder()
    with open_tiny(path, choices.durability) as database:
        face = Embedded(database)
        make_tables(face)
        final = final_reads(face, recorder, choices.keys)
    return history + recorder.close(), final


def killed_server(path: str, choices: Choices, nursery: Nursery) -> Made:
    """A history of clients whose server is killed and started again, several times."""
    recorder = Recorder()
    server = Movable()
    callers = choices.callers(server, recorder, 0)
    job = {"run": "tests.model_based.victims:serve", "path": path, "url": f"{path}-url"}
    job |= {"durability": choices.durability}
    final: dict[str, Versions] = {}
    for life in range(choices.kills + 1):
        is_last = life == choices.kills
        pid = nursery.start(job)
        server.move(url_in(job["url"]))
        make_tables(server)
        if is_last:
            run(callers, choices.steps)
            final = final_reads(server, recorder, choices.keys)
            nursery.kill(pid)
        else:
            killer = threading.Timer(choices.rng.uniform(0.02, 0.2), nursery.kill, [pid])
            killer.start()
            run(callers, None)
            killer.join()
        again = [each.unanswered for each in callers if isinstance(each, Lists)]
        recorder.give_up(kept=[call[0] for call in again if call])
    return recorder.close(), final


MAKERS: dict[str, Callable[[str, Choices, Nursery], Made]] = {
    "embedded": embedded,
    "http": served,
    "killed": killed,
    "killed-http": killed_server,
}


class Movable:
    """A server that has another address after each start."""

    def __init__(self) -> None:
        self._face: Face | None = None

    def move(self, url: str) -> None:
        self._face = Http(url)

    def __call__(self, operation: str, request: dict[str, Any]) -> Any:
        assert self._face is not None
        return self._face(operation, request)


def url_in(path: str) -> str:
    """Wait for the file with the URL, read it and remove it."""
    deadline = time.monotonic() + READY_LIMIT_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(FileNotFoundError):
            url = Path(path).read_text()
            os.unlink(path)
            return url
        time.sleep(0.002)
    raise AssertionError("the server did not start")
