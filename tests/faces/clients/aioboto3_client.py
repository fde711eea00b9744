"""Drives a server with aioboto3. Usage: python aioboto3_client.py URL"""

from __future__ import annotations

import asyncio
import sys

import aioboto3
from boto3.dynamodb.conditions import Attr, Key


async def main(url: str) -> None:
    session = aioboto3.Session(
        aws_access_key_id="any", aws_secret_access_key="any", region_name="us-east-1"
    )
    async with session.resource("dynamodb", endpoint_url=url) as resource:
        table = await resource.create_table(
            TableName="Music",
            KeySchema=[
                {"AttributeName": "Artist", "KeyType": "HASH"},
                {"AttributeName": "SongTitle", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": "Artist", "AttributeType": "S"},
                {"AttributeName": "SongTitle", "AttributeType": "S"},
            ],
            BillingMode="PAY_PER_REQUEST",
        )
        await table.wait_until_exists()
        async with table.batch_writer() as batch:
            for number in range(60):
                await batch.put_item(
                    Item={
                        "Artist": "a",
                        "SongTitle": f"{number:02d}",
                        "Tags": {"x"},
                        "Raw": b"\x00",
                    }
                )
        songs = [f"{number:02d}" for number in range(60)]
        found = await asyncio.gather(
            *(table.get_item(Key={"Artist": "a", "SongTitle": song}) for song in songs)
        )
        assert [reply["Item"]["SongTitle"] for reply in found] == songs
        page = await table.query(
            KeyConditionExpression=Key("Artist").eq("a") & Key("SongTitle").gte("50"),
            FilterExpression=Attr("Tags").contains("x"),
            ScanIndexForward=False,
        )
        assert [item["SongTitle"] for item in page["Items"]] == songs[:49:-1]
        try:
            await table.put_item(
                Item={"Artist": "a", "SongTitle": "00"},
                ConditionExpression=Attr("Artist").not_exists(),
            )
        except resource.meta.client.exceptions.ConditionalCheckFailedException:
            pass
        else:
            raise AssertionError("the condition must fail")
    async with session.client("dynamodb", endpoint_url=url) as client:
        count = 0
        async for page in client.get_paginator("scan").paginate(
            TableName="Music", PaginationConfig={"PageSize": 7}
        ):
            count += page["Count"]
        assert count == 60
        await client.delete_table(TableName="Music")
        await client.get_waiter("table_not_exists").wait(TableName="Music")
    print("done")


asyncio.run(main(sys.argv[1]))
