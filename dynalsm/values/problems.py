"""What can be wrong with an attribute value, and how DynamoDB says it.

A `ValueProblem` knows its kind and details; its texts are made only when asked for. Two wordings
exist because AWS is replacing its validation layer: `str(problem)` is the classic one,
`problem.current` that of the 2026 layer (differences: number texts, duplicates in sets).
A `SerializationProblem` is a wrong JSON type or base64 text; real DynamoDB reports those before
any `ValueProblem` of the same request (see `dynalsm.values.check_shape`).

Immutable and picklable; safe to share between threads.
"""

from __future__ import annotations

from typing import Any, Final

INVALID: Final = "One or more parameter values were invalid: "

_TEXTS: Final = {
    "number_precision": "Attempting to store more than 38 significant digits in a Number",
    "number_overflow": (
        "Number overflow. Attempting to store a number with magnitude larger than supported range"
    ),
    "number_underflow": (
        "Number underflow. Attempting to store a number with magnitude smaller than supported range"
    ),
    "null_false": INVALID + "Null attribute value types must have the value of true",
    "no_type": (
        "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
    ),
    "many_types": (
        "Supplied AttributeValue has more than one datatypes set, "
        "must contain exactly one of the supported datatypes"
    ),
    "nesting": (
        "Nesting Levels have exceeded supported limits: "
        "Attributes in the item have nested levels beyond supported limit"
    ),
    "empty_name": INVALID + "Empty attribute name",
    "name_too_long": INVALID + "Attribute name is too large, must be less than 65536 bytes",
    "not_unicode": INVALID + "A string is not valid Unicode",
    "too_large": "Item size has exceeded the maximum allowed size",
}

_EMPTY_SETS: Final = {
    # Two spaces, as observed.
    "SS": INVALID + "An string set  may not be empty",
    "NS": INVALID + "An number set  may not be empty",
    "BS": INVALID + "Binary sets should not be empty",
}

# Kinds that DynamoDB never wraps in an envelope (reference 13.6, last row).
BARE_KINDS: Final = frozenset({"no_type", "many_types"})


class ValueProblem(ValueError):
    """An attribute value that DynamoDB refuses.

    `kind` is one of: number_format, number_precision, number_overflow, number_underflow,
    empty_set, duplicate, null_false, no_type, many_types, nesting, empty_name, name_too_long,
    not_unicode, too_large. `detail` holds what the text needs: the number's text, the set's type
    tag, or (type tag, members as sent, members up to the first repeat).
    """

    def __init__(self, kind: str, *detail: Any) -> None:
        super().__init__(kind, *detail)
        self.kind = kind
        self.detail = detail

    def __str__(self) -> str:
        return self.classic

    @property
    def is_bare(self) -> bool:
        """Whether both layers report the text without any envelope or prefix."""
        return self.kind in BARE_KINDS

    @property
    def classic(self) -> str:
        """The wording of the classic layer."""
        kind, detail = self.kind, self.detail
        if kind == "number_format":
            text = f": {detail[0]}" if detail and detail[0] else ""
            return f"The parameter cannot be converted to a numeric value{text}"
        if kind == "number_overflow" and detail and _wraps_32_bits(detail[0]):
            return _TEXTS["number_underflow"]
        if kind == "empty_set":
            return _EMPTY_SETS[detail[0]]
        if kind == "duplicate":
            return _classic_duplicate(*detail)
        return _TEXTS[kind]

    @property
    def current(self) -> str:
        """The wording of the 2026 layer, without its envelope."""
        kind, detail = self.kind, self.detail
        if kind == "number_format":
            text = detail[0] if detail else ""
            return f"The parameter cannot be converted to a numeric value: {text}"
        if kind == "number_overflow":
            return _TEXTS[kind]
        if kind == "duplicate":
            return _current_duplicate(*detail)
        return self.classic


class SerializationProblem(ValueError):
    """A member of an AttributeValue has the wrong JSON type, or is no base64 text."""


def _wraps_32_bits(text: str) -> bool:
    # The classic layer adds the digits to the exponent in 32 bits: 1e2147483647 turns negative.
    mantissa, _, exponent = str(text).lower().partition("e")
    try:
        power = int(exponent)
    except ValueError:
        return False
    digits = len(mantissa.lstrip("+-").partition(".")[0].lstrip("0"))
    return power <= 2**31 - 1 < power + digits


def _classic_duplicate(tag: str, sent: list[str], first_repeat: list[str]) -> str:
    if tag == "NS":
        return "Input collection contains duplicates"
    of_type = "of type BS " if tag == "BS" else " "
    return f"{INVALID}Input collection [{', '.join(sent)}]{of_type}contains duplicates."


def _current_duplicate(tag: str, sent: list[str], first_repeat: list[str]) -> str:
    if tag == "NS":
        return INVALID + "Input collection contains duplicates."
    if tag == "BS":
        listed = ",".join(f'"{member}"' for member in sent)
        return f"{INVALID}Input collection [{listed}]of type BS contains duplicates."
    listed = ", ".join(f'"{member}"' for member in first_repeat)
    return f"{INVALID}Input collection [{listed}] contains duplicates."
