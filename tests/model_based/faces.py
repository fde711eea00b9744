"""Ways to call a database: in process, over HTTP; and ways that are broken on purpose.

A face is called with an operation and a request and returns the reply. It raises Refused when the
database says no, and Lost when there is no reply at all.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
import urllib.parse
from collections.abc import Callable
from typing import Any

from dynalsm import errors
from dynalsm.database import Database

Reply = dict[str, Any]
Face = Callable[[str, dict[str, Any]], Reply]

REPLY_LIMIT_SECONDS = 60


class Refused(Exception):
    """The database refused the request: DynamoDB's code and the members of the error."""

    def __init__(self, code: str, members: dict[str, Any]) -> None:
        super().__init__(code, members)
        self.code = code
        self.members = members


class Lost(Exception):
    """There is no reply: the request was carried out, or not."""


class Embedded:
    """Calls a Database in this process."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def __call__(self, operation: str, request: dict[str, Any]) -> Reply:
        try:
            return self._database.call(operation, request)
        except errors.ApiError as error:
            raise Refused(error.code, error.members) from error


class Http:
    """Calls a server; one connection for each thread, and nothing is ever sent twice."""

    def __init__(self, url: str) -> None:
        self._host = urllib.parse.urlsplit(url).netloc
        self._local = threading.local()

    def __call__(self, operation: str, request: dict[str, Any]) -> Reply:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPConnection(self._host, timeout=REPLY_LIMIT_SECONDS)
            self._local.connection = connection
        headers = {
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": f"DynamoDB_20120810.{operation}",
        }
        try:
            connection.request("POST", "/", json.dumps(request), headers)
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as problem:
            connection.close()
            raise Lost from problem
        reply: Reply = json.loads(body)
        if response.status == 200:
            return reply
        code = reply.pop("__type").rpartition("#")[2]
        assert response.status == 400, (response.status, code, reply)
        raise Refused(code, reply)


class Stale:
    """Broken on purpose: now and then a read brings what the last one of its kind brought."""

    def __init__(self, face: Face, seed: int) -> None:
        self._face = face
        self._chance = random.Random(seed)
        self._kept: dict[str, Reply] = {}

    def __call__(self, operation: str, request: dict[str, Any]) -> Reply:
        if operation != "GetItem" or self._chance.random() > 0.2:
            reply = self._face(operation, request)
            if operation == "GetItem":
                self._kept[repr(request["Key"])] = reply
            return reply
        kept = self._kept.get(repr(request["Key"]))
        return self._face(operation, request) if kept is None else kept


class Unlocked:
    """Broken on purpose: counts are read and then written, and what comes between is lost."""

    def __init__(self, face: Face) -> None:
        self._face = face

    def __call__(self, operation: str, request: dict[str, Any]) -> Reply:
        if operation != "UpdateItem" or not request["UpdateExpression"].startswith("ADD"):
            return self._face(operation, request)
        where = {name: request[name] for name in ("TableName", "Key")}
        item = self._face("GetItem", {**where, "ConsistentRead": True}).get("Item", request["Key"])
        added = int(request["ExpressionAttributeValues"][":n"]["N"])
        new = {**item, "n": {"N": str(int(item.get("n", {"N": "0"})["N"]) + added)}}
        self._face("PutItem", {"TableName": request["TableName"], "Item": new})
        return {"Attributes": new}


class Torn:
    """Broken on purpose: what should be one transaction is several."""

    def __init__(self, face: Face, operation: str) -> None:
        self._face = face
        self._operation = operation

    def __call__(self, operation: str, request: dict[str, Any]) -> Reply:
        if operation != self._operation:
            return self._face(operation, request)
        items = request["TransactItems"]
        replies: list[Any] = []
        for place, item in enumerate(items):
            one: dict[str, Any] = {"TransactItems": [item]}
            if "ClientRequestToken" in request:
                one["ClientRequestToken"] = f"{request['ClientRequestToken']}.{place}"
            try:
                part = self._face(operation, one)
            except Refused as refusal:
                reasons = [{"Code": "None"} for _ in items]
                reasons[place] = refusal.members["CancellationReasons"][0]
                raise Refused(refusal.code, {"CancellationReasons": reasons}) from refusal
            replies += part.get("Responses", [])
        return {"Responses": replies}
