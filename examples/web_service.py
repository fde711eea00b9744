"""A web service with its database inside: short links, counted, without another process.

Run it:  python examples/web_service.py links.db 8080
  curl -d https://example.com/a/long/address http://127.0.0.1:8080/links    -> the short name
  curl -i http://127.0.0.1:8080/<name>                                      -> a redirect, counted
  curl http://127.0.0.1:8080/top                                            -> the most used links

Every reply to a POST means that the link is on the disk. Counting is one atomic update, so parallel
requests lose nothing; the index ByCount is never behind the table.
"""

from __future__ import annotations

import json
import secrets
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import dynalsm
from dynalsm.conditions import Attr, Key

TABLE = {
    "TableName": "Links",
    "KeySchema": [{"AttributeName": "Name", "KeyType": "HASH"}],
    "AttributeDefinitions": [
        {"AttributeName": "Name", "AttributeType": "S"},
        {"AttributeName": "Kind", "AttributeType": "S"},
        {"AttributeName": "Count", "AttributeType": "N"},
    ],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "ByCount",
            "KeySchema": [
                {"AttributeName": "Kind", "KeyType": "HASH"},
                {"AttributeName": "Count", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "ALL"},
        }
    ],
    "BillingMode": "PAY_PER_REQUEST",
}


class Links:
    """The service itself, without HTTP."""

    def __init__(self, db: dynalsm.Database) -> None:
        if not any(table.name == "Links" for table in db.tables):
            db.create_table(**TABLE)
        self.table = db.Table("Links")

    def add(self, target: str) -> str:
        """Return a new short name; it never takes the place of another."""
        while True:
            name = secrets.token_urlsafe(4)
            try:
                self.table.put_item(
                    Item={"Name": name, "Target": target, "Kind": "link", "Count": 0},
                    ConditionExpression=Attr("Name").not_exists(),
                )
                return name
            except dynalsm.errors.ConditionalCheckFailedException:
                continue

    def follow(self, name: str) -> str | None:
        """Count one use and return the target."""
        try:
            reply = self.table.update_item(
                Key={"Name": name},
                UpdateExpression="ADD #c :one",
                ConditionExpression=Attr("Name").exists(),
                ExpressionAttributeNames={"#c": "Count"},
                ExpressionAttributeValues={":one": 1},
                ReturnValues="ALL_NEW",
            )
        except dynalsm.errors.ConditionalCheckFailedException:
            return None
        return str(reply["Attributes"]["Target"])

    def top(self) -> list[dict[str, object]]:
        """Return the most used links."""
        page = self.table.query(
            IndexName="ByCount",
            KeyConditionExpression=Key("Kind").eq("link"),
            ScanIndexForward=False,
            Limit=10,
        )
        return [{"name": one["Name"], "count": int(one["Count"])} for one in page["Items"]]


def make_server(links: Links, port: int) -> ThreadingHTTPServer:
    """Return a server whose threads share the database."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            target = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            if self.path != "/links" or not target.startswith(("http://", "https://")):
                self.reply(HTTPStatus.BAD_REQUEST, "send an address to /links")
            else:
                self.reply(HTTPStatus.CREATED, links.add(target))

        def do_GET(self) -> None:
            if self.path == "/top":
                self.reply(HTTPStatus.OK, json.dumps(links.top()))
            elif (target := links.follow(self.path[1:])) is None:
                self.reply(HTTPStatus.NOT_FOUND, "there is no such link")
            else:
                self.reply(HTTPStatus.FOUND, "", Location=target)

        def reply(self, status: HTTPStatus, text: str, **headers: str) -> None:
            body = f"{text}\n".encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def main(path: str, port: int) -> None:
    with dynalsm.open(path) as db, make_server(Links(db), port) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 8080)
