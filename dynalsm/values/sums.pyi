from decimal import Decimal

def exact_sum(left: Decimal, right: Decimal, is_minus: bool = False) -> Decimal:
    """Return left + right, or with is_minus left - right; raise ValueProblem as number.add()."""
