"""How a server writes its logs: lines for people, or one JSON object a line for a collector.

The library itself only calls `logging`; what records say beyond their text (`operation`, `work`,
...) are attributes of the record, given by `extra`.

Thread safety: a formatter has no state.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import orjson

FORMATS = ("text", "json")
TEXT_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# What every record has; the rest is what its caller added.
_USUAL = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}


class JsonFormatter(logging.Formatter):
    """One object a line: time, level, logger, message, what the caller added, and the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        shown: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        shown |= {name: value for name, value in vars(record).items() if name not in _USUAL}
        if record.exc_info:
            shown["exception"] = self.formatException(record.exc_info)
        # Texts may hold lone surrogates (paths that are no UTF-8), which JSON has no place for.
        try:
            return orjson.dumps(shown, default=str).decode()
        except TypeError:
            texts = {name: str(value) for name, value in shown.items()}
            plain = {name: text.encode(errors="replace").decode() for name, text in texts.items()}
            return orjson.dumps(plain).decode()


def set_up(log_format: str) -> None:
    """Write the logs of this process to stderr in one of FORMATS."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        JsonFormatter() if log_format == "json" else logging.Formatter(TEXT_FORMAT)
    )
    logging.basicConfig(handlers=[handler])
