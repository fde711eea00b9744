"""The expression language: text → tree → bound → result; pure functions over internal values.

`bind_*` functions take a text and the request's `Placeholders`, and return an object that can be
used on any number of items. They raise ExpressionError with the complete message; bind in the
order Update, Condition, KeyCondition, Filter, Projection, then call `Placeholders.check_unused`.
Items are any Mapping from attribute names to internal values.

Layer 4: knows dynalsm.values' internal values, no table and no storage.
"""

from dynalsm.expressions.bind import Condition, bind_condition
from dynalsm.expressions.error import ExpressionError
from dynalsm.expressions.evaluate import MISSING, compare, equal, fetch, type_tag
from dynalsm.expressions.keycondition import KeyCondition, bind_key_condition
from dynalsm.expressions.legacy import (
    bind_attribute_updates,
    bind_attributes_to_get,
    bind_expected,
    bind_filter,
    bind_key_conditions,
)
from dynalsm.expressions.placeholders import Placeholders, check_placeholder_keys
from dynalsm.expressions.projection import Projection, bind_projection
from dynalsm.expressions.searchcondition import SearchCondition, bind_search_condition
from dynalsm.expressions.update import Update, UpdateResult, bind_update

__all__ = [
    "MISSING",
    "Condition",
    "ExpressionError",
    "KeyCondition",
    "Placeholders",
    "Projection",
    "SearchCondition",
    "Update",
    "UpdateResult",
    "bind_attribute_updates",
    "bind_attributes_to_get",
    "bind_condition",
    "bind_expected",
    "bind_filter",
    "bind_key_condition",
    "bind_key_conditions",
    "bind_projection",
    "bind_search_condition",
    "bind_update",
    "check_placeholder_keys",
    "compare",
    "equal",
    "fetch",
    "type_tag",
]
