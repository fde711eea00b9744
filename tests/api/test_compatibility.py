"""docs/compatibility.md says of every operation of the installed botocore how it is done here."""

from __future__ import annotations

from pathlib import Path

import botocore.session
import pytest

from dynalsm.api import OPERATIONS, compatibility

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"
KINDS = {compatibility.SAME, compatibility.LOCAL, compatibility.KEPT, compatibility.REFUSED}


@pytest.mark.parametrize("service", ["dynamodb", "dynamodbstreams"])
def test_every_operation_of_botocore_has_an_entry(service: str) -> None:
    model = botocore.session.get_session().get_service_model(service)
    assert set(model.operation_names) <= set(compatibility.DONE_AS)


def test_every_entry_is_an_operation_that_is_implemented() -> None:
    assert set(compatibility.DONE_AS) == set(OPERATIONS)
    for entry in OPERATIONS.values():
        assert entry.load().__doc__, entry.name
    assert {kind for kind, _ in compatibility.DONE_AS.values()} <= KINDS


def test_the_page_has_the_table() -> None:
    """When this fails: python -m dynalsm.api.compatibility docs/compatibility.md"""
    text = PAGE.read_text(encoding="utf-8")
    assert compatibility.with_table(text) == text


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="operations: begin"):
        compatibility.with_table("no markers")
