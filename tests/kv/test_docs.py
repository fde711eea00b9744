"""The examples of docs/kv.md run from top to bottom, in one namespace; its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dynalsm import kv

PAGE = Path(__file__).resolve().parents[2] / "docs" / "kv.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


@pytest.mark.skipif(not PAGE.exists(), reason="no docs beside the tests")
def test_the_examples_run() -> None:
    text = PAGE.read_text()
    namespace: dict[str, object] = {}
    blocks = list(BLOCK.finditer(text))
    assert len(blocks) >= 10
    for block in blocks:
        # Line numbers of a failure are those of the page.
        before = "\n" * text.count("\n", 0, block.start(1))
        exec(compile(before + block[1], str(PAGE), "exec"), namespace)


def test_every_exception_and_method_is_on_the_page() -> None:
    text = PAGE.read_text()
    for name in kv.__all__:
        if name.endswith("Error"):
            assert f"`kv.{name}`" in text, name
    for kind in (kv.DB, kv.WriteBatch, kv.Iterator, kv.RawIterator, kv.Snapshot, kv.PrefixedDB):
        for name in dir(kind):
            if name[0] != "_" and name != "place":
                assert re.search(rf"\b{name}\b", text), (kind, name)


def test_links_within_the_page_lead_somewhere() -> None:
    text = PAGE.read_text()
    heads = {
        re.sub(r"[^a-z0-9 -]", "", head.lower()).replace(" ", "-")
        for head in re.findall(r"^#+ (.+)$", text, re.M)
    }
    assert set(re.findall(r"\]\(#([\w-]+)\)", text)) <= heads
