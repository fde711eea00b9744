"""A served database with something in it, and a browser to look at it with."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httptools")

import dynalsm
from dynalsm.database import Database
from dynalsm.server import ServerThread
from tests.faces.conftest import MUSIC

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
WAIT_MS = 60_000
EVERYTHING: dict[str, Any] = {
    "Artist": "The Acme Band",
    "SongTitle": "Still In Love",
    "Year": 1999,
    "Live": True,
    "Gone": None,
    "Cover": bytes(range(256)) * 20,
    "Thumb": b"\x89PNG",
    "Codes": [1, "two", [3]],
    "Label": {"Name": "Acme Records", "Owner": {"Name": "Ann"}},
    "Tags": {"live", "remaster"},
    "Ranks": {1, 2},
    "Marks": {b"a", b"b"},
    "Lyrics": "la " * 2000,
    "Empty": "",
}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A database on the disk; what it promises is not waited for."""
    with dynalsm.open(tmp_path / "shop.db", durability="os") as opened:
        yield opened


@pytest.fixture
def music(database: Database) -> Any:
    """The Music table with 60 songs and an item that has every type."""
    table = database.create_table(**MUSIC)
    with table.batch_writer() as batch:
        for number in range(60):
            title = f"Song {number:02d}"
            batch.put_item(Item={"Artist": "Kraftwerk", "SongTitle": title, "Year": 1970 + number})
        batch.put_item(Item=EVERYTHING)
    return table


@pytest.fixture
def url(database: Database) -> Iterator[str]:
    """The address of a server on the database."""
    with ServerThread(database) as server:
        yield server.url


@dataclass
class Watched:
    """A page with what it complained about and whom it asked."""

    page: Any
    url: str
    complaints: list[str] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)

    def go(self, place: str = "") -> Any:
        """Show a place of the console ("#/engine") and wait for its title."""
        self.page.goto(f"{self.url}/_console/{place}")
        self.page.wait_for_selector("main h1")
        return self.page


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """A headless Chromium; skips where there is none."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="needs playwright (pip install playwright)"
    )
    program = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if program is None:
        pytest.skip("needs Chromium (apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        try:
            # Chromium's sandbox does not work for root; the pages are our own.
            started = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        except playwright.Error as problem:
            pytest.skip(f"{program} does not start: {str(problem)[:300]}")
        yield started
        started.close()


@pytest.fixture
def look(browser: Any) -> Iterator[Callable[..., Watched]]:
    """look(url, **context options) gives a new page; at the end nothing may have gone wrong."""
    opened: list[Watched] = []

    def open_page(url: str, **options: Any) -> Watched:
        context = browser.new_context(**options)
        context.set_default_timeout(WAIT_MS)
        watched = Watched(context.new_page(), url)
        watched.page.on("pageerror", lambda error: watched.complaints.append(str(error)))
        watched.page.on(
            "console",
            lambda message: (
                watched.complaints.append(message.text)
                if message.type in ("error", "warning")
                else None
            ),
        )
        watched.page.on("request", lambda request: watched.asked.add(request.url))
        opened.append(watched)
        return watched

    yield open_page
    for watched in opened:
        watched.page.context.close()
        # Refused requests are logged by the browser; the page shows them, which tests look at.
        real = [one for one in watched.complaints if "Failed to load resource" not in one]
        assert real == []
        assert {one for one in watched.asked if not one.startswith((watched.url, "blob:"))} == set()
