"""The key of encrypted databases on the command line: one option for every command.

`dynalsm --encryption-key-file FILE command ...`, or DYNALSM_ENCRYPTION_KEY_FILE in the environment.
The file is read when a database is opened; its path, never the key, is kept here.

Thread safety: set once, before a command runs.
"""

from __future__ import annotations

import os
from typing import Any

OPTION = "--encryption-key-file"
VARIABLE = "DYNALSM_ENCRYPTION_KEY_FILE"
HELP = "Key of the encrypted database: a file with mode 0600 (dynalsm new-key makes one)."

_key_file: str | None = None


def use(key_file: str | None) -> None:
    """Open databases with the key in this file from now on; None: as the environment says."""
    global _key_file
    _key_file = key_file or None


def key_file() -> str | None:
    """The file of the key, or None."""
    return _key_file or os.environ.get(VARIABLE) or None


def options(path: str = "") -> dict[str, Any]:
    """What open, verify and repair are to be given besides the path; "": of a directory."""
    given = key_file()
    return {} if given is None or "://" in path else {"encryption_key": given}


def options_where_needed(path: str) -> dict[str, Any]:
    """As options(), but nothing for a database that is there and not encrypted.

    For commands with two databases, of which one may be encrypted.
    """
    from dynalsm._core.keyring import has_keys
    from dynalsm._core.recovery import has_database

    if os.path.isdir(path) and has_database(path) and not has_keys(path):
        return {}
    return options(path)
