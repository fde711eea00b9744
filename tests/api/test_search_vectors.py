"""SearchVectors: scores, order, restrictions, projections, checks (reference 1.2)."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from dynalsm import errors
from dynalsm.database import Database
from tests.support.databases import memory_database
from tests.support.store import B, N, S
from tests.support.vectors import (
    FLOAT_MAX,
    NAME,
    numbers,
    put,
    score,
    search,
    vector_index,
    vector_table,
)

DISTANCES = ("COSINE", "EUCLIDEAN", "DOT_PRODUCT")


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    """Four vectors and a zero one; the index `scoped` has a HASH and two INLINE_FILTERs."""
    with memory_database() as database:
        database.call(
            "CreateTable",
            vector_table(
                *(vector_index(distance, distance) for distance in DISTANCES),
                vector_index("scoped", hash="t", filters=["c", "b"]),
                vector_index("filtered", filters=["c"], Projection={"ProjectionType": "KEYS_ONLY"}),
            ),
        )
        put(database, "a", (1, 0, 0), t=S("x"), c=N(1), b=B(b"1"), z=S("here"))
        put(database, "b", (0, 1, 0), t=S("x"), c=N(2))
        put(database, "c", (-1, 0, 0), t=S("x"), c=N("1.0"), b=B(b"2"))
        put(database, "d", (0.6, 0.8, 0), t=S("y"), c=N(1))
        put(database, "nothing", None, t=S("x"))
        yield database


def refused(db: Database, code: str = "ValidationException", **members: Any) -> str:
    request = {
        "TableName": NAME,
        "IndexName": "COSINE",
        "SearchVector": numbers(1, 0, 0),
        "TopK": 1,
        **members,
    }
    with pytest.raises(errors.ApiError) as caught:
        db.call("SearchVectors", {k: v for k, v in request.items() if v is not ...})
    assert caught.value.code == code, caught.value
    return caught.value.message


# Scores and order.


def test_scores_are_the_observed_ones(db: Database) -> None:
    """Values measured on AWS with the same four vectors."""
    assert search(db, "COSINE", (1, 0, 0)) == [
        ("a", 0.0),
        ("d", pytest.approx(0.4, abs=1e-6)),
        ("b", 1.0),
        ("c", 2.0),
    ]
    assert search(db, "EUCLIDEAN", (1, 0, 0)) == [
        ("a", 0.0),
        ("d", pytest.approx(0.8**0.5, abs=1e-6)),
        ("b", pytest.approx(2**0.5)),
        ("c", 2.0),
    ]
    assert search(db, "DOT_PRODUCT", (1, 0, 0)) == [
        ("a", 1.0),
        ("d", pytest.approx(0.6, abs=1e-6)),
        ("b", 0.0),
        ("c", -1.0),
    ]


def test_top_k_cuts_the_list_and_may_exceed_it(db: Database) -> None:
    assert [key for key, _ in search(db, "COSINE", (1, 0, 0), 2)] == ["a", "d"]
    assert len(search(db, "COSINE", (1, 0, 0), 100)) == 4


@pytest.mark.parametrize("distance", DISTANCES)
def test_scores_agree_with_their_definition(distance: str) -> None:
    """Dimensions around the kernel's width, elements of many sizes, equal vectors, zeros."""
    seed = random.randrange(10**6)
    print("seed", seed)
    chance = random.Random(seed)
    for dimensions in (1, 2, 15, 16, 17, 33, 100):
        with memory_database() as database:
            index = vector_index("near", distance, dimensions)
            database.call("CreateTable", vector_table(index))
            vectors = {
                f"k{number}": [
                    round(chance.gauss(0, 1) * 10 ** chance.choice((-3, 0, 3)), 6)
                    for _ in range(dimensions)
                ]
                for number in range(20)
            }
            vectors["zero"] = [0.0] * dimensions
            for key, vector in vectors.items():
                put(database, key, vector)
            for wanted in (vectors["k0"], [0.0] * dimensions, [0.25] * dimensions):
                found = search(database, "near", wanted, 100)
                best = {key: score(distance, wanted, vector) for key, vector in vectors.items()}
                for key, value in found:
                    assert value == pytest.approx(best[key], rel=1e-9, abs=1e-9)
                scores = [value for _, value in found]
                assert scores == sorted(scores, reverse=distance == "DOT_PRODUCT")
                assert len(found) == 21


def test_a_vector_is_no_distance_from_itself(db: Database) -> None:
    """Exactly: rounding must not leave a trace, whatever the numbers are."""
    chance = random.Random(5)
    with memory_database() as database:
        index = vector_index("near", "COSINE", 50)
        database.call("CreateTable", vector_table(index))
        for number in range(50):
            vector = [round(chance.uniform(-1, 1), 9) for _ in range(50)]
            put(database, f"k{number}", vector)
            key, value = search(database, "near", vector, 1)[0]
            assert (key, value) == (f"k{number}", 0.0)


def test_zero_vectors_are_one_away(db: Database) -> None:
    assert [value for _, value in search(db, "COSINE", (0, 0, 0))] == [1.0] * 4


def test_scores_stay_inside_the_range_of_floats() -> None:
    """Sums of squares of the largest floats are no floats; neither are the smallest ones zero."""
    with memory_database() as database:
        database.call(
            "CreateTable", vector_table(*(vector_index(each, each) for each in DISTANCES))
        )
        put(database, "huge", ("3.4028235E38",) * 3)
        put(database, "tiny", ("1E-45", 0, 0))
        found = search(database, "EUCLIDEAN", ("-3.4E38",) * 3)
        assert found == [("huge", FLOAT_MAX), ("tiny", FLOAT_MAX)]
        assert search(database, "DOT_PRODUCT", ("3.4E38",) * 3)[0] == ("huge", FLOAT_MAX)
        assert search(database, "DOT_PRODUCT", ("-3.4E38",) * 3)[1] == ("huge", -FLOAT_MAX)
        assert search(database, "COSINE", (1, 0, 0))[0] == ("tiny", 0.0)
        # Products beyond the range of 32 bits cancel out.
        assert dict(search(database, "DOT_PRODUCT", ("3E38", "-3E38", 0)))["huge"] == 0.0


def test_equal_scores_are_in_the_order_of_the_primary_key() -> None:
    """Also by length: keys are compared as bytes, the shorter first, not by their length."""
    request = vector_table(vector_index("near"))
    request["KeySchema"].append({"AttributeName": "s", "KeyType": "RANGE"})
    request["AttributeDefinitions"].append({"AttributeName": "s", "AttributeType": "N"})
    keys = [("aa", 2), ("b", 1), ("a", 10), ("a", 9), ("a", -1), ("ab", 0), ("B", 3)]
    with memory_database() as database:
        database.call("CreateTable", request)
        for key, sort in keys:
            put(database, key, (1, 1, 0), s=N(sort))
        wanted = {"TableName": NAME, "IndexName": "near", "SearchVector": numbers(1, 0, 0)}
        for k in (3, 7):
            found = database.call("SearchVectors", {**wanted, "TopK": k})["SearchResults"]
            pairs = [(each["Item"]["p"]["S"], int(each["Item"]["s"]["N"])) for each in found]
            assert pairs == sorted(keys)[:k]


# What is searched.


def test_hash_value_scopes_the_search(db: Database) -> None:
    only = {"SearchConditionExpression": "t = :t"}
    found = search(db, "scoped", (1, 0, 0), **only, ExpressionAttributeValues={":t": S("y")})
    assert [key for key, _ in found] == ["d"]
    found = search(db, "scoped", (1, 0, 0), **only, ExpressionAttributeValues={":t": S("none")})
    assert found == []


def test_inline_filters_restrict_and_need_the_attribute(db: Database) -> None:
    """Numbers are equal by value; an item without the attribute matches no condition on it."""
    text = "#t = :t AND :c = c AND b = :b"
    given = {":t": S("x"), ":c": N("1.00"), ":b": B(b"2")}
    names = {"#t": "t"}
    more = {"ExpressionAttributeNames": names, "ExpressionAttributeValues": given}
    found = search(db, "scoped", (1, 0, 0), SearchConditionExpression=text, **more)
    assert [key for key, _ in found] == ["c"]
    text, given = "c = :c", {":c": N(1)}
    more = {"SearchConditionExpression": text, "ExpressionAttributeValues": given}
    assert [key for key, _ in search(db, "filtered", (1, 0, 0), **more)] == ["a", "d", "c"]
    more["ExpressionAttributeValues"] = {":c": N(7)}
    assert search(db, "filtered", (1, 0, 0), **more) == []


def test_a_filter_may_be_a_key_attribute() -> None:
    with memory_database() as database:
        database.call("CreateTable", vector_table(vector_index("near", filters=["p"])))
        put(database, "a", (1, 0, 0))
        put(database, "b", (1, 0, 0))
        more = {"SearchConditionExpression": "p = :p", "ExpressionAttributeValues": {":p": S("b")}}
        assert search(database, "near", (1, 0, 0), **more) == [("b", 0.0)]


# What is returned.


def results(db: Database, **members: Any) -> list[dict[str, Any]]:
    request = {"TableName": NAME, "IndexName": "COSINE", "SearchVector": numbers(1, 0, 0)}
    found: list[dict[str, Any]] = db.call("SearchVectors", {**request, "TopK": 1, **members})[
        "SearchResults"
    ]
    return [each["Item"] for each in found]


def test_everything_but_the_vector_comes_back(db: Database) -> None:
    assert results(db) == [{"p": S("a"), "t": S("x"), "c": N(1), "b": B(b"1"), "z": S("here")}]


def test_keys_only_keeps_the_search_schema(db: Database) -> None:
    assert results(db, IndexName="filtered") == [{"p": S("a"), "c": N(1)}]


def test_projection_brings_the_vector_as_floats() -> None:
    """The index keeps the nearest floats; they come back as the shortest numbers that name them."""
    with memory_database() as database:
        database.call("CreateTable", vector_table(vector_index("COSINE")))
        put(
            database, "a", ("0.1", "16777217", "1.000000059604644775390625"), m={"M": {"x": S("y")}}
        )
        [item] = results(database, ProjectionExpression="p, e, m.x")
        assert item == {
            "p": S("a"),
            "e": {"L": numbers("0.1", "16777216", "1")},
            "m": {"M": {"x": S("y")}},
        }
        assert results(database, ProjectionExpression="e[1]") == [{"e": {"L": numbers(16777216)}}]
        stored = database.call("GetItem", {"TableName": NAME, "Key": {"p": S("a")}})["Item"]
        assert stored["e"]["L"][1] == N(16777217)


def test_unprojected_attributes_yield_nothing(db: Database) -> None:
    assert results(db, IndexName="filtered", ProjectionExpression="z") == [{}]
    assert results(db, IndexName="filtered", ProjectionExpression="p, z") == [{"p": S("a")}]


def test_include_projects_named_attributes() -> None:
    include = {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["z"]}
    with memory_database() as database:
        database.call("CreateTable", vector_table(vector_index("COSINE", Projection=include)))
        put(database, "a", (1, 0, 0), z=S("z"), y=S("y"))
        assert results(database) == [{"p": S("a"), "z": S("z")}]


def test_capacity_is_in_bytes_and_the_same_in_both_modes(db: Database) -> None:
    request = {
        "TableName": NAME,
        "IndexName": "COSINE",
        "SearchVector": numbers(1, 0, 0),
        "TopK": 1,
    }
    for mode in ("TOTAL", "INDEXES"):
        reply = db.call("SearchVectors", {**request, "ReturnConsumedCapacity": mode})
        assert reply["ConsumedCapacity"] == {"VectorSearchRequestBytes": 1024.0}
    for mode in ("NONE", None):
        reply = db.call("SearchVectors", {**request, "ReturnConsumedCapacity": mode})
        assert set(reply) == {"SearchResults"}


# What is refused, in the order of the checks.


def test_deserialiser_is_strict(db: Database) -> None:
    text = refused(db, TableName=...)
    assert text.startswith("missing field `TableName` at line 1 column ")
    text = refused(db, "SerializationException", IndexName=None)
    assert text.startswith("invalid type: null, expected a string at line 1 column ")
    text = refused(db, "SerializationException", TopK=3.5)
    assert text.startswith("invalid type: floating point `3.5`, expected i32 at line 1 column ")


def test_columns_are_those_of_the_request_as_boto3_sends_it(db: Database) -> None:
    """`{"TableName": "Things", "IndexName": null` has 41 characters."""
    assert refused(db, "SerializationException", IndexName=None).endswith("column 41")


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"IndexName": "xx"}, "'IndexName' failed to satisfy constraint: Member must have length"),
        ({"SearchVector": []}, "'SearchVector' failed to satisfy constraint: Member must have le"),
        ({"TopK": 0}, "'TopK' failed to satisfy constraint: Member must have value greater than"),
        ({"TopK": 101, "TableName": "unknown"}, "Provided TopK value '101' is out of valid range"),
        (
            {"SearchConditionExpression": "t < ", "TableName": "unknown"},
            "Invalid SearchConditionExpression: Syntax error",
        ),
        (
            {"SearchConditionExpression": "t = :t", "TableName": "unknown"},
            "An expression attribute value used in expression is not defined",
        ),
        ({"IndexName": "none"}, "The table does not have the specified index: none"),
        ({"SearchVector": numbers(1, 0)}, "Input search vector dimension 2 does not match vector"),
        # The elements come before their number.
        ({"SearchVector": [{"L": numbers(1, 0, 0)}]}, "Search vector contains invalid values."),
        ({"SearchVector": numbers(1, 0, "1E39")}, "Search vector contains invalid values."),
        ({"IndexName": "scoped"}, "SearchConditionExpression must be provided when SearchSchema"),
    ],
)
def test_refused(db: Database, members: dict[str, Any], text: str) -> None:
    assert text in refused(db, **members)


def test_unknown_table(db: Database) -> None:
    refused(db, "ResourceNotFoundException", TableName="unknown")


COMPARATOR = "Invalid SearchConditionExpression: Invalid comparator used in SearchConditionExpr"


@pytest.mark.parametrize(
    ("condition", "given", "text"),
    [
        ("t < :t", {":t": S("x")}, COMPARATOR),
        ("t = :t AND c < :c", {":t": S("x"), ":c": N(1)}, COMPARATOR),
        ("t = :t OR c = :c", {":t": S("x"), ":c": N(1)}, COMPARATOR),
        ("NOT t = :t", {":t": S("x")}, COMPARATOR),
        ("t IN (:t)", {":t": S("x")}, COMPARATOR),
        ("begins_with(t, :t)", {":t": S("x")}, COMPARATOR),
        ("attribute_exists(t)", None, COMPARATOR),
        ("t = c", None, COMPARATOR),
        ("z = :z", {":z": S("x")}, "must not contain any attributes that is not in SearchSchema. "),
        ("t = :t AND t = :t", {":t": S("x")}, "must only contain one condition per attribute"),
        ("t.x = :t", {":t": S("x")}, "cannot have conditions on nested attributes"),
        ("c = :c", {":c": N(1)}, "SearchConditionExpression must be provided when SearchSchema"),
        ("t = :t", {":t": N(1)}, "Type of 't' attribute in SearchConditionExpression (N) does"),
        ("t = :t AND c = :c", {":t": S("x"), ":c": S("1")}, "Type of 'c' attribute in Search"),
        ("t = :t", {":t": S("")}, "cannot contain an empty string value. Key: t"),
    ],
)
def test_conditions_that_are_refused(db: Database, condition: str, given: Any, text: str) -> None:
    more = {} if given is None else {"ExpressionAttributeValues": given}
    assert text in refused(db, IndexName="scoped", SearchConditionExpression=condition, **more)


def test_placeholders_are_checked(db: Database) -> None:
    values = {"ExpressionAttributeValues": {":t": S("x"), ":u": S("x")}}
    text = refused(db, IndexName="scoped", SearchConditionExpression="t = :t", **values)
    assert "unused in expressions: keys: {:u}" in text
    text = refused(db, ExpressionAttributeValues={":t": S("x")})
    assert "ExpressionAttributeValues can only be specified when using expressions" in text


def test_other_reads_of_a_vector_index_are_refused(db: Database) -> None:
    request = {"TableName": NAME, "IndexName": "COSINE"}
    key = {"KeyConditionExpression": "p = :p", "ExpressionAttributeValues": {":p": S("a")}}
    for operation, more in (("Query", key), ("Scan", {})):
        with pytest.raises(errors.ValidationException) as caught:
            db.call(operation, {**request, **more})
        assert caught.value.message == f"{operation} operation not supported on this index type."
    with pytest.raises(errors.ValidationException, match="not supported on this index type"):
        db.call("ExecuteStatement", {"Statement": f'SELECT * FROM "{NAME}"."COSINE"'})


def test_native_and_json_forms(db: Database) -> None:
    """The faces: a client with wire values, and JSON with base64."""
    from dynalsm.values import JSON

    request = {"TableName": NAME, "IndexName": "COSINE", "SearchVector": numbers(1, 0, 0)}
    reply = db.client.search_vectors(**request, TopK=1)
    assert reply["SearchResults"][0]["Score"] == 0.0
    import orjson

    reply = db.call("SearchVectors", {**request, "TopK": 1}, JSON)
    item = orjson.loads(orjson.dumps(reply))["SearchResults"][0]["Item"]
    assert item["b"] == {"B": "MQ=="}


def test_a_snapshot_shows_its_moment() -> None:
    with memory_database() as database:
        database.call("CreateTable", vector_table(vector_index("near")))
        put(database, "a", (1, 0, 0))
        with database.snapshot() as snapshot:
            put(database, "a", (0, 1, 0))
            put(database, "b", (1, 0, 0))
            request = {"TableName": NAME, "IndexName": "near", "SearchVector": numbers(1, 0, 0)}
            reply = snapshot.client.search_vectors(**request, TopK=5)
            found = [(each["Item"]["p"]["S"], each["Score"]) for each in reply["SearchResults"]]
            assert found == [("a", 0.0)]
        assert search(database, "near", (1, 0, 0)) == [("b", 0.0), ("a", 1.0)]


def test_floats_of_the_kernel_are_little_endian() -> None:
    """The format says so; the kernel reads them as they are."""
    assert struct.pack("=f", 1.0) == struct.pack("<f", 1.0)
