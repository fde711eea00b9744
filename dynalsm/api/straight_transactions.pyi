from typing import Any

from dynalsm.values import Form

def transact_write_items(database: Any, request: Any, form: Form) -> dict[str, Any] | None:
    """Answer a TransactWriteItems; None when it has to take the long way."""
