"""Plain Python values to bytes, in two forms.

internal
    what expressions work on: str, Decimal, bytes, bool, None, list, dict, frozenset
native
    what boto3's resource takes: Decimal and int, Binary, set, ...; what boto3's TypeSerializer
    refuses is refused with the same exception and text (float, mixed sets, numbers beyond its
    decimal context)

Thread safety: pure functions; arguments must not be changed by another thread meanwhile.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from decimal import Clamped, Context, Decimal, Inexact, Overflow, Rounded, Underflow

from dynalsm.values.buffer cimport Buffer
from dynalsm.values.codec cimport EXT_BS, EXT_NS, EXT_SS
from dynalsm.values.number cimport (
    NUMBER_OK,
    Number,
    number_from_layout,
    number_from_object,
    raise_number_problem,
)
from dynalsm.values.pieces cimport (
    FORM_WIRE,
    Options,
    check_depth,
    encode_map,
    encode_one,
    put_byte,
    put_bytes_like,
    put_list,
    put_map,
    put_number,
    put_number_object,
    put_set,
    put_text,
)

from dynalsm.values.problems import ValueProblem

# The numbers boto3's TypeSerializer takes, and how it refuses the others.
cdef object NATIVE_CONTEXT = Context(
    Emin=-128, Emax=126, prec=38, traps=[Clamped, Overflow, Inexact, Rounded, Underflow]
)
cdef object DECIMAL = Decimal


# ---- internal -----------------------------------------------------------------------------------

cdef int put_internal(Buffer* out, object value, int depth, const Options* options) except -1:
    check_depth(depth, options)
    if isinstance(value, str):
        return put_text(out, value)
    if type(value) is DECIMAL:
        return put_number_object(out, value)
    if value is None:
        return put_byte(out, 0xC0)
    if isinstance(value, bool):
        return put_byte(out, 0xC3 if value else 0xC2)
    if isinstance(value, dict):
        return put_map(out, value, depth + 1, options, put_internal, False)
    if isinstance(value, list):
        return put_list(out, value, depth + 1, options, put_internal)
    if isinstance(value, (bytes, bytearray)):
        return put_bytes_like(out, value)
    if isinstance(value, (frozenset, set)):
        return put_internal_set(out, list(value))
    if isinstance(value, (int, Decimal)):
        return put_number_object(out, value)
    if isinstance(value, tuple):
        return put_list(out, value, depth + 1, options, put_internal)
    if isinstance(value, Mapping):
        return put_map(out, dict(value), depth + 1, options, put_internal, False)
    raise TypeError(f"no attribute value: {type(value)}")


cdef int put_internal_set(Buffer* out, list members) except -1:
    if not members:
        raise ValueProblem("empty_set", "SS")
    first = members[0]
    if isinstance(first, str):
        return put_set(out, EXT_SS, checked_members(members, str))
    if isinstance(first, bytes):
        return put_set(out, EXT_BS, checked_members(members, bytes))
    return put_set(out, EXT_NS, checked_members(members, (int, Decimal)))


cdef list checked_members(list members, kind):
    for member in members:
        if not isinstance(member, kind):
            raise TypeError(f"mixed types in a set: {type(member)}")
    return members


# ---- native -------------------------------------------------------------------------------------

cdef int put_native(Buffer* out, object value, int depth, const Options* options) except -1:
    """Write what boto3's TypeSerializer accepts, by the same order of type tests."""
    check_depth(depth, options)
    # The exact types first; they are nearly all there is.
    if type(value) is str:
        return put_text(out, value)
    if type(value) is int or type(value) is DECIMAL:
        return put_native_number(out, value)
    if type(value) is dict:
        return put_map(out, value, depth + 1, options, put_native, False)
    if value is None:
        return put_byte(out, 0xC0)
    if isinstance(value, bool):
        return put_byte(out, 0xC3 if value else 0xC2)
    if type(value) is list:
        return put_list(out, value, depth + 1, options, put_native)
    if type(value) is bytes:
        return put_bytes_like(out, value)
    if type(value) is set and put_native_set(out, value):
        return 0
    if is_native_number(value):
        return put_native_number(out, value)
    if isinstance(value, str):
        return put_text(out, value)
    if is_native_binary(value):
        return put_bytes_like(out, native_bytes(value))
    if isinstance(value, AbstractSet):
        if put_native_set(out, value):
            return 0
    elif isinstance(value, Mapping):
        return put_map(
            out,
            value if isinstance(value, dict) else dict(value),
            depth + 1,
            options,
            put_native,
            False,
        )
    elif isinstance(value, (list, tuple)):
        return put_list(out, value, depth + 1, options, put_native)
    raise TypeError(f'Unsupported type "{type(value)}" for value "{value}"')


cdef bint is_native_number(object value) except -1:
    if isinstance(value, (int, Decimal)):
        return True
    if isinstance(value, float):
        raise TypeError("Float types are not supported. Use Decimal types instead.")
    return False


cdef bint is_native_binary(object value) except -1:
    if isinstance(value, (bytes, bytearray)):
        return True
    # boto3's Binary, without importing boto3.
    return isinstance(getattr(value, "value", None), (bytes, bytearray)) and any(
        [base.__name__ == "Binary" for base in type(value).__mro__]
    )


cdef object native_bytes(object value):
    return value if isinstance(value, (bytes, bytearray)) else value.value


cdef int put_native_number(Buffer* out, object value) except -1:
    cdef Number number
    cdef int code = number_from_layout(value, &number)
    if code < 0:
        if not type(value) is int:
            check_native_number(value)
        code = number_from_object(value, &number)
    if (
        code != NUMBER_OK or number.exponent < -100 or number.exponent > 36
        or (number.count == 0 and type(value) is not int)    # 0E+200
    ):
        # Rare: let the context boto3 uses decide, it refuses what has more than 38 digits as
        # written, infinities and the like, with its own exceptions.
        check_native_number(value)
    if code != NUMBER_OK:
        return raise_number_problem(code, value)
    return put_number(out, &number)


cdef int check_native_number(object value) except -1:
    text = str(NATIVE_CONTEXT.create_decimal(value))
    if text.lstrip("-").startswith(("Infinity", "NaN", "sNaN")):
        raise TypeError("Infinity and NaN not supported")
    return 0


cdef int put_native_set(Buffer* out, object value) except -1:
    """Write a set of one element type. Returns: 1, or 0 when boto3 would not take it."""
    cdef list members = list(value)
    cdef Py_ssize_t numbers = 0
    cdef Py_ssize_t texts = 0
    cdef Py_ssize_t binaries = 0
    for member in members:
        if isinstance(member, str):
            texts += 1
        elif is_native_number(member):
            numbers += 1
        elif is_native_binary(member):
            binaries += 1
    if numbers == len(members):
        for member in members:
            check_native_number(member)
        put_set(out, EXT_NS, members)
        return 1
    if texts == len(members):
        put_set(out, EXT_SS, members)
        return 1
    if binaries == len(members):
        put_set(out, EXT_BS, [bytes(native_bytes(member)) for member in members])
        return 1
    return 0


# ---- the Python functions -----------------------------------------------------------------------

def encode_value(value, int depth_limit=32):
    """Encode an internal value."""
    return encode_one(put_internal, value, depth_limit, FORM_WIRE)


def encode_item(item, int depth_limit=32):
    """Encode a mapping of attribute name to internal value."""
    if not isinstance(item, dict):
        item = dict(item)
    return encode_map(put_internal, item, depth_limit, FORM_WIRE)


def encode_native(value, int depth_limit=32):
    """Encode a value of boto3's resource interface; TypeError for what boto3 refuses."""
    return encode_one(put_native, value, depth_limit, FORM_WIRE)


def encode_native_item(item, int depth_limit=32):
    """Encode a mapping of attribute name to a value of boto3's resource interface."""
    if not isinstance(item, dict):
        if not isinstance(item, Mapping):
            raise TypeError(f'Unsupported type "{type(item)}" for value "{item}"')
        item = dict(item)
    return encode_map(put_native, item, depth_limit, FORM_WIRE)
