"""The one exception of the expression language.

Thread safety: immutable after construction. Invariant: `message` is the complete text a client
sees, prefix included; who catches it adds nothing.
"""

from __future__ import annotations

from typing import Final

# What went wrong, for callers that wrap some texts and not others (one envelope per kind).
SYNTAX: Final = "syntax"  # unreadable text, or an empty one
LIMIT: Final = "limit"  # size, operator count, nesting, list index
PARENTHESES: Final = "parentheses"  # redundant parentheses
RESERVED: Final = "reserved"  # a reserved word used as a name
FUNCTION: Final = "function"  # unknown or misplaced function, wrong operand count
SECTION: Final = "section"  # an update section written twice
PLACEHOLDER: Final = "placeholder"  # an undefined #name or :value
UNUSED: Final = "unused"  # a defined placeholder that no expression mentions
DISTINCT: Final = "distinct"  # the same path on both sides
OPERAND: Final = "operand"  # a constant of a type the operator cannot take
PATHS: Final = "paths"  # overlapping or conflicting paths
KEY: Final = "key"  # a key condition the key schema does not allow
PARAMETER: Final = "parameter"  # a legacy parameter that makes no sense
RUNTIME: Final = "runtime"  # only the stored item makes it wrong


class ExpressionError(Exception):
    """An expression DynamoDB would refuse with a ValidationException."""

    def __init__(self, message: str, kind: str = SYNTAX) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind


class Refusal(Exception):
    """Why an expression is refused, before it is known which parameter the text came from."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind

    def under(self, label: str) -> ExpressionError:
        """Return the error a client sees for the parameter `label`."""
        return ExpressionError(f"Invalid {label}: {self.message}", self.kind)
