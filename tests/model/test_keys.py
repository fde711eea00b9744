"""Tree keys and stored values of tables and indexes: order, ranges, round trips, refusals."""

from __future__ import annotations

import itertools
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalsm import errors, limits, values
from dynalsm._core.hashing import hash64
from dynalsm.model.keys import IndexKeys, KeyProblem, TableKeys, segment_of
from tests.values import strategies as some

PAGE = Path(__file__).parents[2] / "docs" / "format-items.md"
# Values that stand close together in byte order, by key type; none empty.
NASTY: dict[str, list[Any]] = {
    "S": [
        "\0",
        "\0\0",
        "\0\x01",
        "\x01",
        "a",
        "a\0",
        "a\0b",
        "a\x01",
        "aa",
        "b",
        "é",
        "\uffff",
        "\U00010000",
    ],
    "B": [
        b"\0",
        b"\0\0",
        b"\0\x01",
        b"\0\xff",
        b"\x01",
        b"a",
        b"a\0",
        b"\xfe",
        b"\xfe\xff",
        b"\xff",
        b"\xff\xff",
    ],
    "N": [
        Decimal(text)
        for text in (
            "-1e125 -100 -99.5 -1 -1e-130 0 1e-130 0.5 1 1.01 10 12 100 1e62 1e63 1e125"
        ).split()
    ],
}
KEY_VALUES = {
    "S": st.one_of(st.sampled_from(NASTY["S"]), st.text("\0\x01a\uffff", min_size=1, max_size=4)),
    "B": st.one_of(
        st.sampled_from(NASTY["B"]),
        st.lists(st.sampled_from(b"\0\x01a\xfe\xff"), min_size=1, max_size=4).map(bytes),
    ),
    "N": st.one_of(st.sampled_from(NASTY["N"]), some.numbers),
}
TYPES = ("S", "B", "N")


def order(value: Any) -> Any:
    """The sort order DynamoDB gives a key value."""
    return value.encode() if isinstance(value, str) else value


def encode(item: dict[str, Any]) -> bytes:
    return values.encode_item(item)


# ---- tables ----


@pytest.mark.parametrize("pk_type", TYPES)
@pytest.mark.parametrize("sk_type", [*TYPES, None])
def test_table_round_trip(pk_type: str, sk_type: str | None) -> None:
    # Names before, between and behind the key attributes' names.
    for pk_name, sk_name in (("m", "n"), ("n", "m"), ("a", "z"), ("pk", "p")):
        keys = TableKeys(pk_name, pk_type, sk_name if sk_type else None, sk_type)
        for pk, sk in zip(NASTY[pk_type], NASTY[sk_type or "S"], strict=False):
            for extra in ({}, {"b": "x", "mm": None, "nn": ["y"], "zz": Decimal(1)}):
                item = {**extra, pk_name: pk} | ({sk_name: sk} if sk_type else {})
                data = encode(item)
                tree_key, stored = keys.record(data)
                assert tree_key == keys.encode(data)
                assert stored == keys.strip(data)
                assert keys.join(tree_key, stored) == data
                assert keys.stored_size(stored) == values.item_size(data)
                key_map = values.select(data, keys.names)
                assert keys.key_item(tree_key) == key_map
                assert keys.encode_key(key_map) == tree_key
                assert (
                    keys.partition_prefix(values.encode_value(pk))
                    == tree_key[: len(tree_key) - len(raw(sk) if sk_type else b"")]
                )


def raw(value: Any) -> bytes:
    """The key bytes of a value."""
    if isinstance(value, Decimal):
        return values.encode_number(value)
    return value.encode() if isinstance(value, str) else value


@given(some.items, KEY_VALUES["S"], KEY_VALUES["N"])
def test_table_round_trip_of_any_item(item: dict[str, Any], pk: str, sk: Decimal) -> None:
    keys = TableKeys("pk", "S", "sk", "N")
    data = encode(item | {"pk": pk, "sk": sk})
    tree_key, stored = keys.record(data)
    assert keys.join(tree_key, stored) == data
    # By the page on formats.
    assert tree_key == (
        hash64(raw(pk)).to_bytes(8, "big") + len(raw(pk)).to_bytes(2, "big") + raw(pk) + raw(sk)
    )
    assert stored[0] == 1
    size = varint = 0
    for varint, byte in enumerate(stored[1:]):
        size |= (byte & 0x7F) << 7 * varint
        if byte < 0x80:
            break
    assert size == values.item_size(data)
    assert stored[2 + varint :] == values.without(data, ["pk", "sk"])


def test_every_spelling_of_a_number_finds_the_item() -> None:
    keys = TableKeys("pk", "N")
    assert (
        len(
            {
                keys.encode_key(values.encode_wire_item({"pk": {"N": text}}))
                for text in ("1000", "1e3", "1000.00", "+1E+3", "0001000", "10000e-1")
            }
        )
        == 1
    )


@pytest.mark.parametrize("kind", TYPES)
def test_tree_key_order_is_sort_key_order(kind: str) -> None:
    keys = TableKeys("pk", "S", "sk", kind)
    by_key = sorted(NASTY[kind], key=lambda sk: keys.encode(encode({"pk": "p", "sk": sk})))
    assert by_key == sorted(NASTY[kind], key=order)


CONDITIONS: dict[str, Any] = {
    "=": lambda sk, a: order(sk) == order(a),
    "<": lambda sk, a: order(sk) < order(a),
    "<=": lambda sk, a: order(sk) <= order(a),
    ">": lambda sk, a: order(sk) > order(a),
    ">=": lambda sk, a: order(sk) >= order(a),
    "begins_with": lambda sk, a: order(sk).startswith(order(a)),
}


def check_ranges(kind: str, tree_key_of: Any, range_of: Any) -> None:
    """Hold every operator with every operand against the conditions, key by key."""
    present = [(sk, tree_key_of(sk)) for sk in NASTY[kind]]
    inside = range_of(None, [])
    assert all(inside[0] <= tree_key < inside[1] for _, tree_key in present)
    for operand in NASTY[kind]:
        for op, is_true in CONDITIONS.items():
            if op == "begins_with" and kind == "N":
                continue
            lower, upper = range_of(op, [values.encode_value(operand)])
            assert inside[0] <= lower <= upper <= inside[1] or lower == upper
            for sk, tree_key in present:
                assert (lower <= tree_key < upper) == is_true(sk, operand), (op, operand, sk)
    for low, high in itertools.product(NASTY[kind], repeat=2):
        lower, upper = range_of("BETWEEN", [values.encode_value(low), values.encode_value(high)])
        assert lower <= upper
        for sk, tree_key in present:
            expected = order(low) <= order(sk) <= order(high)
            assert (lower <= tree_key < upper) == expected, (low, high, sk)


@pytest.mark.parametrize("pk", ["p", "\xff", "\U0010ffff"])
@pytest.mark.parametrize("kind", TYPES)
def test_table_ranges(kind: str, pk: str) -> None:
    keys = TableKeys("pk", "S", "sk", kind)
    prefix = keys.partition_prefix(values.encode_value(pk))
    check_ranges(
        kind,
        lambda sk: keys.encode(encode({"pk": pk, "sk": sk})),
        lambda op, operands: keys.sort_range(prefix, op, operands),
    )


@given(KEY_VALUES["B"], KEY_VALUES["B"], st.sampled_from(sorted(CONDITIONS)))
def test_table_ranges_of_any_bytes(sk: bytes, operand: bytes, op: str) -> None:
    keys = TableKeys("pk", "B", "sk", "B")
    prefix = keys.partition_prefix(values.encode_value(b"\xff" * 3))
    lower, upper = keys.sort_range(prefix, op, [values.encode_value(operand)])
    tree_key = keys.encode(encode({"pk": b"\xff" * 3, "sk": sk}))
    assert (lower <= tree_key < upper) == CONDITIONS[op](sk, operand)


def test_partitions_do_not_touch() -> None:
    # Partition keys one of which starts with the other.
    keys = TableKeys("pk", "B", "sk", "B")
    for a, b in itertools.permutations([b"a", b"a\0", b"aa", b"\0", b"\0\0"], 2):
        lower, upper = keys.sort_range(keys.partition_prefix(values.encode_value(a)))
        assert not lower <= keys.encode(encode({"pk": b, "sk": b"x"})) < upper
        assert lower <= keys.encode(encode({"pk": a, "sk": b"\xff" * 9})) < upper


def test_equalities_of_a_table_are_its_one_sort_condition() -> None:
    keys = TableKeys("pk", "S", "sk", "S")
    prefix = keys.partition_prefix(values.encode_value("p"))
    one = [values.encode_value("x")]
    assert keys.sort_range(prefix, equalities=one) == keys.sort_range(prefix, "=", one)
    for arguments in ((prefix, "=", one, one), (prefix, None, (), one * 2)):
        with pytest.raises(ValueError, match="one sort attribute"):
            keys.sort_range(*arguments)


def test_misuse_of_ranges() -> None:
    keys = TableKeys("pk", "S", "sk", "S")
    prefix = keys.partition_prefix(values.encode_value("p"))
    one = values.encode_value("x")
    for op, operands in (("<>", [one]), ("=", []), ("=", [one, one]), ("BETWEEN", [one])):
        with pytest.raises(ValueError, match=r"operator|operands"):
            keys.sort_range(prefix, op, operands)
    with pytest.raises(ValueError, match="no sort key"):
        TableKeys("pk", "S").sort_range(prefix, "=", [one])


# ---- what is refused ----


def problem_of(call: Any, *arguments: Any) -> KeyProblem:
    with pytest.raises(KeyProblem) as caught:
        call(*arguments)
    return caught.value


def test_problems_of_items() -> None:
    keys = TableKeys("pk", "S", "sk", "B")
    invalid = "One or more parameter values were invalid: "
    empty = (
        "One or more parameter values are not valid. The AttributeValue for a key attribute "
        "cannot contain an empty {} value. Key: {}"
    )
    for item, kind, attribute, text in (
        ({"sk": b"x"}, "missing", "pk", invalid + "Missing the key pk in the item"),
        ({"pk": "x"}, "missing", "sk", invalid + "Missing the key sk in the item"),
        (
            {"pk": Decimal(1), "sk": b"x"},
            "type",
            "pk",
            invalid + "Type mismatch for key pk expected: S actual: N",
        ),
        (
            {"pk": "x", "sk": None},
            "type",
            "sk",
            invalid + "Type mismatch for key sk expected: B actual: NULL",
        ),
        ({"pk": "", "sk": b"x"}, "empty", "pk", empty.format("string", "pk")),
        ({"pk": "x", "sk": b""}, "empty", "sk", empty.format("binary", "sk")),
        (
            {"pk": "x" * 2049, "sk": b"x"},
            "too_long",
            "pk",
            invalid + "Size of hashkey has exceeded the maximum size limit of2048 bytes",
        ),
        (
            {"pk": "x", "sk": b"x" * 1025},
            "too_long",
            "sk",
            invalid + "Aggregated size of all range keys has exceeded the size limit of 1024 bytes",
        ),
    ):
        problem = problem_of(keys.encode, encode(item))
        assert (problem.kind, problem.attribute, str(problem)) == (kind, attribute, text)
        assert problem.role == ("HASH" if attribute == "pk" else "RANGE")


def test_problems_of_key_maps() -> None:
    keys = TableKeys("pk", "S", "sk", "N")
    for key in (
        *[{}, {"pk": "x"}, {"sk": Decimal(1)}, {"pk": "x", "x": Decimal(1)}],
        *[
            {"pk": "x", "sk": Decimal(1), "x": "x"},
            {"pk": "x", "sk": "x"},
            {"pk": None, "sk": Decimal(1)},
        ],
    ):
        problem = problem_of(keys.encode_key, encode(key))
        assert problem.kind == "schema"
        assert str(problem) == "The provided key element does not match the schema"
    assert problem_of(keys.encode_key, encode({"pk": "", "sk": Decimal(1)})).kind == "empty"
    long_key = encode({"pk": "x" * 2049, "sk": Decimal(1)})
    assert problem_of(keys.encode_key, long_key).kind == "too_long"


def test_the_longest_keys() -> None:
    keys = TableKeys("pk", "B", "sk", "B")
    item = encode(
        {
            "pk": b"\xff" * limits.PARTITION_KEY_MAX_BYTES,
            "sk": b"\xff" * limits.SORT_KEY_MAX_BYTES,
            "big": b"x" * 400_000,
        }
    )
    tree_key, stored = keys.record(item)
    assert keys.join(tree_key, stored) == item
    assert len(tree_key) == 8 + 2 + 2048 + 1024


def test_problems_of_conditions() -> None:
    keys = TableKeys("pk", "S", "sk", "N")
    prefix = keys.partition_prefix(values.encode_value("p"))
    text = values.encode_value("x")
    assert problem_of(keys.sort_range, prefix, "=", [text]).kind == "type"
    number = values.encode_value(Decimal(1))
    assert problem_of(keys.sort_range, prefix, "begins_with", [number]).kind == "type"
    assert problem_of(keys.partition_prefix, number).kind == "type"
    assert problem_of(keys.partition_prefix, values.encode_value("")).kind == "empty"
    assert problem_of(keys.partition_prefix, values.encode_value("x" * 2049)).kind == "too_long"
    texts = TableKeys("pk", "S", "sk", "S")
    empty = values.encode_value("")
    assert problem_of(texts.sort_range, prefix, "=", [empty]).kind == "empty"
    long_text = [values.encode_value("x" * 1025)]
    assert problem_of(texts.sort_range, prefix, ">", long_text).kind == "too_long"
    # Ranges may start at the empty string.
    assert texts.sort_range(prefix, ">=", [empty]) == texts.sort_range(prefix)
    assert texts.sort_range(prefix, "begins_with", [empty]) == texts.sort_range(prefix)


def test_schemas_that_cannot_be() -> None:
    for arguments in (
        ("pk", "SS"),
        ("pk", "M"),
        ("pk", ""),
        ("pk", "S", "sk", "L"),
        ("a", "S", "a", "S"),
    ):
        with pytest.raises(ValueError):
            TableKeys(*arguments)
    table = TableKeys("pk", "S", "sk", "S")
    for arguments in (
        ("LSI", table, [("other", "S")], [("x", "S")], ("ALL", ())),
        ("LSI", table, [("pk", "S")], [], ("ALL", ())),
        ("LSI", TableKeys("pk", "S"), [("pk", "S")], [("x", "S")], ("ALL", ())),
        ("GSI", table, [], [], ("ALL", ())),
        ("GSI", table, [(str(i), "S") for i in range(5)], [], ("ALL", ())),
        ("GSI", table, [("x", "S")], [(str(i), "S") for i in range(5)], ("ALL", ())),
        ("GSI", table, [("x", "S")], [], ("SOME", ())),
        ("XSI", table, [("x", "S")], [], ("ALL", ())),
    ):
        with pytest.raises(ValueError):
            IndexKeys(*arguments)


# ---- indexes ----

TABLE = TableKeys("pk", "S", "sk", "N")
ITEM: dict[str, Any] = {
    "pk": "p\0q",
    "sk": Decimal("-12.5"),
    "s": "x\0y",
    "b": b"\0\xff",
    "n": Decimal(7),
    "m": {"a": "b"},
    "z": "last",
}
SHAPES: list[tuple[str, list[tuple[str, str]], list[tuple[str, str]]]] = [
    ("LSI", [("pk", "S")], [("s", "S")]),
    ("LSI", [("pk", "S")], [("n", "N")]),
    ("LSI", [("pk", "S")], [("b", "B")]),
    ("LSI", [("pk", "S")], [("sk", "N")]),
    ("GSI", [("s", "S")], []),
    ("GSI", [("b", "B")], [("n", "N")]),
    ("GSI", [("n", "N")], [("s", "S")]),
    ("GSI", [("pk", "S")], [("sk", "N")]),
    ("GSI", [("sk", "N")], [("pk", "S")]),
    ("GSI", [("s", "S"), ("n", "N"), ("b", "B")], [("z", "S"), ("sk", "N"), ("pk", "S")]),
    ("GSI", [("s", "S"), ("n", "N"), ("b", "B"), ("pk", "S")], [("z", "S")]),
]


@pytest.mark.parametrize(
    "projection", [("ALL", ()), ("KEYS_ONLY", ()), ("INCLUDE", ["m", "nope", "z"])], ids=str
)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("table", [TABLE, TableKeys("pk", "S")], ids=["with sk", "without sk"])
def test_index_round_trip(table: TableKeys, shape: Any, projection: Any) -> None:
    if shape[0] == "LSI" and len(table.names) == 1:
        return
    index = IndexKeys(shape[0], table, shape[1], shape[2], projection)
    data = encode(ITEM)
    entry = index.entry(data)
    assert entry is not None
    tree_key, stored = entry
    names = {name for name, _ in shape[1] + shape[2]} | set(table.names)
    projected = names | set(projection[1]) if projection[0] != "ALL" else set(ITEM)
    assert set(index.names) == names
    assert len(index.names) == len(names)
    assert index.encode(data) == tree_key
    assert index.join(tree_key, stored) == values.select(data, projected)
    assert index.stored_size(stored) == values.item_size(values.select(data, projected))
    assert index.key_item(tree_key) == values.select(data, names)
    assert index.encode_key(index.key_item(tree_key)) == tree_key
    assert index.table_key(tree_key) == table.encode(data)
    prefix = index.partition_prefix(*(values.encode_value(ITEM[name]) for name, _ in shape[1]))
    assert tree_key.startswith(prefix)
    if shape[0] == "LSI":
        assert prefix == table.partition_prefix(values.encode_value(ITEM["pk"]))
    # Without any one of the index's keys, the item is not in the index.
    for name, _ in shape[1] + shape[2]:
        if name not in table.names:
            assert index.entry(values.without(data, [name])) is None
            assert (
                problem_of(index.encode_key, values.without(index.key_item(tree_key), [name])).kind
                == "schema"
            )


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("local", [True, False])
def test_index_ranges(kind: str, local: bool) -> None:
    hashes = [("pk", "S")] if local else [("h", "B")]
    index = IndexKeys("LSI" if local else "GSI", TABLE, hashes, [("r", kind)], ("ALL", ()))
    prefix = index.partition_prefix(values.encode_value("p" if local else b"\xff"))
    # What follows the range attribute must not matter: low and high sort keys of the table.
    for sk in (Decimal("-1e125"), Decimal(0), Decimal("9e125")):
        check_ranges(
            kind,
            lambda r, sk=sk: index.encode(encode({"pk": "p", "sk": sk, "h": b"\xff", "r": r})),
            lambda op, operands: index.sort_range(prefix, op, operands),
        )


def test_order_of_index_entries() -> None:
    index = IndexKeys("GSI", TABLE, [("h", "S")], [("r", "S"), ("q", "B"), ("n", "N")], ("ALL", ()))
    items = [
        {"h": "h", "r": r, "q": q, "n": n, "pk": pk, "sk": sk}
        for r in ("a", "a\0", "a\0b", "b")
        for q in (b"\0", b"\0\0", b"\xff")
        for n in (Decimal(-1), Decimal(0), Decimal("0.5"))
        for pk in ("p", "q")
        for sk in (Decimal(1), Decimal(2))
    ]
    by_key = sorted(items, key=lambda item: index.encode(encode(item)) or b"")
    assert by_key == sorted(
        items, key=lambda item: [order(item[name]) for name in ("r", "q", "n", "pk", "sk")]
    )


@given(KEY_VALUES["S"], KEY_VALUES["S"], KEY_VALUES["B"], KEY_VALUES["B"])
def test_escaping_keeps_order(s1: str, s2: str, b1: bytes, b2: bytes) -> None:
    index = IndexKeys("GSI", TABLE, [("h", "S")], [("r", "S"), ("q", "B")], ("ALL", ()))
    first, second = (
        index.encode(encode({"h": "h", "r": s, "q": b, "pk": "p", "sk": Decimal(0)})) or b""
        for s, b in ((s1, b1), (s2, b2))
    )
    assert (first < second) == ((order(s1), b1) < (order(s2), b2))
    assert values.decode_item(index.key_item(first))["q"] == b1


@pytest.mark.parametrize("op", [None, *sorted(CONDITIONS), "BETWEEN"])
def test_equalities_then_a_range(op: str | None) -> None:
    index = IndexKeys("GSI", TABLE, [("h", "S")], [("r", "S"), ("q", "S"), ("t", "S")], ("ALL", ()))
    prefix = index.partition_prefix(values.encode_value("h"))
    texts = ("a", "a\0", "a\0a", "b")
    one = values.encode_value
    for r, q in itertools.product(texts, repeat=2):
        operands = [one("a\0")] * (2 if op == "BETWEEN" else 1 if op else 0)
        lower, upper = index.sort_range(prefix, op, operands, [one(r), one(q)])
        is_true = CONDITIONS.get(op or "", lambda t, _: op is None or t == "a\0")
        for r2, q2, t2 in itertools.product(texts, repeat=3):
            item = {"h": "h", "r": r2, "q": q2, "t": t2, "pk": "p", "sk": Decimal(0)}
            expected = (r2, q2) == (r, q) and is_true(t2, "a\0")
            assert (lower <= (index.encode(encode(item)) or b"") < upper) == expected
    # All of them by equality.
    lower, upper = index.sort_range(prefix, equalities=[one("a"), one("b"), one("b")])
    item = {"h": "h", "r": "a", "q": "b", "t": "b", "pk": "p", "sk": Decimal(0)}
    assert lower <= (index.encode(encode(item)) or b"") < upper
    with pytest.raises(ValueError, match="3 range attributes"):
        index.sort_range(prefix, "=", [one("a")], [one("a")] * 3)


def test_multi_attribute_hash_parts_do_not_run_together() -> None:
    index = IndexKeys("GSI", TABLE, [("g", "S"), ("h", "S")], [], ("ALL", ()))
    assert index.partition_prefix(values.encode_value("ab"), values.encode_value("c")) != (
        index.partition_prefix(values.encode_value("a"), values.encode_value("bc"))
    )
    with pytest.raises(ValueError, match="2 hash attributes"):
        index.partition_prefix(values.encode_value("ab"))


def test_problems_of_index_keys() -> None:
    index = IndexKeys("GSI", TABLE, [("h", "S")], [("r", "B")], ("ALL", ()))
    key = {"pk": "p", "sk": Decimal(0)}
    for item, kind, attribute in (
        ({"h": Decimal(1), "r": b"x"}, "type", "h"),
        ({"h": "x", "r": None}, "type", "r"),
        # Checked even though the item is not in the index for lack of the other attribute.
        ({"h": None}, "type", "h"),
        ({"r": "x"}, "type", "r"),
        ({"h": "", "r": b"x"}, "empty", "h"),
        ({"h": "x", "r": b""}, "empty", "r"),
        ({"h": "x" * 2049}, "too_long", "h"),
        ({"h": "x", "r": b"x" * 1025}, "too_long", "r"),
    ):
        problem = problem_of(index.entry, encode(key | item))
        assert (problem.kind, problem.attribute) == (kind, attribute)
    problem = problem_of(index.entry, encode({"h": Decimal(1), "r": b"x"} | key))
    assert (problem.expected, problem.actual, problem.role) == ("S", "N", "HASH")
    assert index.entry(encode(key)) is None
    longest = {"h": "x" * 2048, "r": b"\0" * 1024, "pk": "x" * 2048, "sk": Decimal(0)}
    entry = index.entry(encode(longest))
    assert entry is not None
    assert index.join(*entry) == encode(longest)


# ---- decoding without joining ----

FORMS = (values.NATIVE, values.WIRE, values.JSON)


def shown(form: values.Form, item: Any) -> Any:
    return orjson.loads(orjson.dumps(item)) if form is values.JSON else item


def assert_same_decoding(keys: TableKeys | IndexKeys, tree_key: bytes, stored: bytes) -> None:
    """What decode() makes of an entry is what the form makes of the joined item."""
    for form in FORMS:
        try:
            expected = shown(form, form.decode_item(keys.join(tree_key, stored)))
        except errors.CorruptionError:
            with pytest.raises(errors.CorruptionError):
                keys.decode(tree_key, stored, form.kind)
            continue
        decoded = shown(form, keys.decode(tree_key, stored, form.kind))
        assert decoded == expected
        assert list(decoded) == list(expected)


@given(some.items, some.items)
def test_any_items_decode_as_joined(first: dict[str, Any], second: dict[str, Any]) -> None:
    for pk_name, sk_name in (("m", "n"), ("A", "zz"), ("é", "a")):
        keys = TableKeys(pk_name, "S", sk_name, "N")
        # The names of the item before must make no difference.
        for item in (first, second, first, first, second):
            entry = keys.record(encode({**item, pk_name: "p", sk_name: Decimal("2.5")}))
            assert_same_decoding(keys, *entry)


@pytest.mark.parametrize("pk_type", TYPES)
@pytest.mark.parametrize("sk_type", [*TYPES, None])
def test_key_values_decode_as_joined(pk_type: str, sk_type: str | None) -> None:
    keys = TableKeys("m", pk_type, "n" if sk_type else None, sk_type)
    for pk, sk in itertools.product(NASTY[pk_type], NASTY[sk_type or "S"][:4]):
        item = {"b": "x", "m": pk, "mm": [], "z": True} | ({"n": sk} if sk_type else {})
        assert_same_decoding(keys, *keys.record(encode(item)))


def test_index_entries_decode_as_joined() -> None:
    for kind, hashes, ranges in SHAPES:
        keys = IndexKeys(kind, TABLE, hashes, ranges, ("ALL", ()))
        for change in ({}, {"n": Decimal(-1)}, {"extra": "x"}):
            entry = keys.entry(encode({**ITEM, **change}))
            assert entry is not None
            assert_same_decoding(keys, *entry)


def test_damaged_entries_decode_as_joined() -> None:
    index = IndexKeys("GSI", TABLE, [("s", "S")], [("n", "N")], ("ALL", ()))
    for keys in (TABLE, index):
        entry = keys.record(encode(ITEM)) if keys is TABLE else index.entry(encode(ITEM))
        assert entry is not None
        for which in (0, 1):
            data = entry[which]
            changed = [data[:size] for size in range(len(data))]
            changed += [
                data[:at] + bytes([data[at] ^ change]) + data[at + 1 :]
                for at in range(len(data))
                for change in (0x01, 0x80, 0xFF)
            ]
            for bad in changed:
                keys.decode(*entry, values.NATIVE.kind)
                assert_same_decoding(keys, *((bad, entry[1]) if which == 0 else (entry[0], bad)))


def test_a_stored_attribute_with_the_name_of_a_key_is_damage() -> None:
    tree_key, _ = TABLE.record(encode(ITEM))
    bad = b"\x01\x09" + encode({"a": "x", "pk": "y"})
    for form in FORMS:
        with pytest.raises(errors.CorruptionError, match="damaged"):
            TABLE.decode(tree_key, bad, form.kind)


# ---- parallel scan ----


@pytest.mark.parametrize("total", [1, 2, 3, 7, 16, 1000, 999_983])
def test_segments_are_disjoint_and_complete(total: int) -> None:
    segments = range(total) if total < 100 else [0, 1, total // 3, total - 2, total - 1]
    for segment in segments:
        lower, upper = TABLE.hash_range(segment, total)
        assert len(lower) == 8
        if segment:
            assert TABLE.hash_range(segment - 1, total)[1] == lower
        else:
            assert lower == bytes(8)
        assert segment_of(lower, total) == segment
        if upper is None:
            assert segment == total - 1
            assert segment_of(b"\xff" * 8, total) == segment
        else:
            last = (int.from_bytes(upper, "big") - 1).to_bytes(8, "big")
            assert segment_of(last + b"\xff", total) == segment
    for bad in (-1, total):
        with pytest.raises(ValueError, match="segment"):
            TABLE.hash_range(bad, total)
    with pytest.raises(errors.CorruptionError, match="damaged"):
        segment_of(b"short", total)


def test_segments_of_keys() -> None:
    for i in range(200):
        tree_key = TABLE.encode(encode({"pk": f"p{i}", "sk": Decimal(i)}))
        segment = segment_of(tree_key, 7)
        lower, upper = TABLE.hash_range(segment, 7)
        assert lower <= tree_key
        assert upper is None or tree_key < upper


# ---- the page ----


def test_examples_of_the_format_page() -> None:
    item = encode({"pk": "a", "sk": Decimal(5), "x": "y", "n": None, "g": "q\0r", "h": b"zz"})
    local = IndexKeys("LSI", TABLE, [("pk", "S")], [("g", "S")], ("ALL", ()))
    narrow = IndexKeys("GSI", TABLE, [("h", "B")], [("g", "S")], ("KEYS_ONLY", ()))
    page = PAGE.read_text()
    assert f"`{item.hex(' ')}`" in page
    for entry in (TABLE.record(item), local.entry(item), narrow.entry(item)):
        assert entry is not None
        assert f"| `{entry[0].hex(' ')}` | `{entry[1].hex(' ')}` |" in page
