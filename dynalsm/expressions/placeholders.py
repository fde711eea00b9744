"""ExpressionAttributeNames and -Values of one request.

Thread safety: a Placeholders object belongs to one request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from dynalsm.expressions import error
from dynalsm.expressions.error import ExpressionError
from dynalsm.expressions.parser import Parsed

MAX_ATTRIBUTE_NAME_BYTES: Final = 65535  # observed: scylladb, 65536 is refused
MAX_PLACEHOLDER_BYTES: Final = 255  # AWS, Limits: expression attribute names and values

_NAME_KEY: Final = re.compile(r"#[0-9A-Za-z_]+", re.ASCII)
_VALUE_KEY: Final = re.compile(r":[0-9A-Za-z_]+", re.ASCII)

# Keys that were found good before; programs use few. Only ever added to, so no lock is needed.
_KNOWN_KEYS: Final = 4096
_known_keys: Final[dict[str, set[str]]] = {"Names": set(), "Values": set()}


class Placeholders:
    """The ExpressionAttributeNames and -Values of one request, and which of them were used.

    `encoded` are the same values as encoded bytes, if the caller has them.
    Raises: ExpressionError when a map is empty or a key is no placeholder.
    """

    __slots__ = ("_used_names", "_used_values", "encoded", "names", "values")

    def __init__(
        self,
        names: Mapping[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
        encoded: Mapping[str, bytes] | None = None,
    ) -> None:
        check_placeholder_keys(names, values)
        self.names: Mapping[str, str] = names if names is not None else {}
        self.values: Mapping[str, Any] = values if values is not None else {}
        self.encoded = encoded
        self._used_names: set[str] = set()
        self._used_values: set[str] = set()

    def mark(self, parsed: Parsed) -> None:
        """Count every placeholder a text mentions as used."""
        if parsed.names:
            self._used_names.update(parsed.names)
        if parsed.values:
            self._used_values.update(parsed.values)

    def check_unused(self) -> None:
        """Refuse names, then values, that no bound expression mentions."""
        if len(self._used_names) < len(self.names):
            self._raise_unused("Names", self.names, self._used_names)
        if len(self._used_values) < len(self.values):
            self._raise_unused("Values", self.values, self._used_values)

    @staticmethod
    def _raise_unused(which: str, given: Mapping[str, Any], used: set[str]) -> None:
        unused = ", ".join(key for key in given if key not in used)
        raise ExpressionError(
            f"Value provided in ExpressionAttribute{which} unused in expressions: "
            f"keys: {{{unused}}}",
            error.UNUSED,
        )


def check_placeholder_keys(
    names: Mapping[str, str] | None, values: Mapping[str, Any] | None
) -> None:
    """Check the keys of both maps, and the names; values are not looked at, in whatever form."""
    if names is not None:
        _check_keys("Names", names, _NAME_KEY)
        for key, name in names.items():
            why = name_problem(name)
            if why is not None:
                raise ExpressionError(
                    f"ExpressionAttributeNames contains invalid value: {why} for key {key}",
                    error.PLACEHOLDER,
                )
    if values is not None:
        _check_keys("Values", values, _VALUE_KEY)


def name_problem(name: str) -> str | None:
    """Say what makes a string unfit to be an attribute name, None when nothing does."""
    if not name:
        return "Empty attribute name"
    if len(name) * 4 > MAX_ATTRIBUTE_NAME_BYTES and (
        len(name.encode("utf-8", "surrogatepass")) > MAX_ATTRIBUTE_NAME_BYTES
    ):
        limit = MAX_ATTRIBUTE_NAME_BYTES + 1
        return f"Attribute name is too large, must be less than {limit} bytes"
    return None


def _check_keys(which: str, given: Mapping[str, Any], form: re.Pattern[str]) -> None:
    if not given:
        raise ExpressionError(f"ExpressionAttribute{which} must not be empty", error.PLACEHOLDER)
    known = _known_keys[which]
    for key in given:
        if key in known:
            continue
        if form.fullmatch(key) is None:
            raise ExpressionError(
                f'ExpressionAttribute{which} contains invalid key: Syntax error; key: "{key}"',
                error.PLACEHOLDER,
            )
        if len(key) > MAX_PLACEHOLDER_BYTES:
            raise ExpressionError(
                f"ExpressionAttribute{which} contains invalid key: The expression attribute key "
                f'is longer than {MAX_PLACEHOLDER_BYTES} bytes; key: "{key}"',
                error.PLACEHOLDER,
            )
        if len(known) < _KNOWN_KEYS:
            known.add(key)
