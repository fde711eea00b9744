from decimal import Decimal

def parse_number(text: str) -> Decimal:
    """Return the Decimal that DynamoDB makes of a number's text; raise ValueProblem if none."""

def number_text(value: int | Decimal) -> str:
    """Return DynamoDB's canonical plain text of an int or Decimal ("1000", never "1E+3")."""

def encode_number(value: int | Decimal) -> bytes:
    """Return the order-preserving bytes of an int or Decimal."""

def decode_number(data: bytes) -> Decimal:
    """Return the Decimal of number bytes; raise ValueError when they are not one whole number."""

def add(left: Decimal, right: Decimal) -> Decimal:
    """Return left + right exactly; raise ValueProblem when DynamoDB cannot hold the sum."""

def subtract(left: Decimal, right: Decimal) -> Decimal:
    """Return left - right exactly; raise ValueProblem when DynamoDB cannot hold the difference."""

def _use_decimal_layout(wanted: bool) -> bool:
    """Turn the use of Decimal's layout off or on again (tests); return whether it is in use."""
