"""HTTP load: dynalsm serve beside other DynamoDB-compatible servers.

    python bench/http_load.py [--seconds 2] [--rounds 3] [--connections 1,8,64] [--only get,put]

Peers are used where they are found: dynoxide and dynalite below --npm DIR (npm install dynalite
@dynoxide/linux-x64 there), moto where it is installed (--moto). Each workload runs on each server
in turn, several rounds; figures are medians. "CPU" is the server process's CPU time per request
(from /proc), which noise on the machine moves least. The client is one process with plain sockets
and prepared requests, so it costs the same for everybody.

Durability: dynalsm (os) and the in-memory peers answer before anything is on stable storage;
dynalsm-commit and dynoxide-file (SQLite) answer after an fsync.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")
ITEMS = 2000  # loaded before reading


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def typed_item(number: int) -> dict[str, Any]:
    """About 520 bytes of DynamoDB JSON."""
    return {
        "pk": {"S": f"user#{number // 20:06d}"},
        "sk": {"N": str(number % 20)},
        "name": {"S": f"Person {number} of the city"},
        "email": {"S": f"u{number}@example.com"},
        "age": {"N": str(number % 90)},
        "score": {"N": "12.75"},
        "tags": {"SS": ["green", "red", f"t{number % 7}"]},
        "address": {"M": {"street": {"S": "Main Street 5"}, "zip": {"N": "12345"}}},
        "visits": {"L": [{"N": "1"}, {"N": "2"}, {"S": "x"}]},
        "active": {"BOOL": True},
        "bio": {"S": "lorem ipsum dolor sit amet " * 4},
    }


def request_bytes(operation: str, body: dict[str, Any]) -> bytes:
    payload = json.dumps(body).encode()
    head = (
        "POST / HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Type: application/x-amz-json-1.0\r\n"
        f"X-Amz-Target: DynamoDB_20120810.{operation}\r\n"
        "Authorization: AWS4-HMAC-SHA256 Credential=bench/20260101/us-east-1/dynamodb/aws4_request,"
        " SignedHeaders=host;x-amz-date, Signature=00\r\nX-Amz-Date: 20260101T000000Z\r\n"
        f"Content-Length: {len(payload)}\r\n\r\n"
    )
    return head.encode() + payload


@dataclass
class Server:
    """One server process."""

    name: str
    command: list[str]
    port: int
    directory: str
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    first_answer_ms: float = 0.0

    def start(self) -> None:
        began = time.perf_counter()
        self.process = subprocess.Popen(
            self.command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **self.environment},
        )
        listing = request_bytes("ListTables", {})
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=5) as probe:
                    probe.sendall(listing)
                    if b" 200 " in probe.recv(4096):
                        break
            except OSError:
                pass
            if time.perf_counter() - began > 60 or self.process.poll() is not None:
                raise RuntimeError(f"{self.name} does not start")
            time.sleep(0.002)
        self.first_answer_ms = (time.perf_counter() - began) * 1000

    def cpu_seconds(self) -> float:
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident_mb(self) -> float:
        assert self.process is not None
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0.0

    def call(self, operation: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/",
            data=json.dumps(body).encode(),
            headers={
                "Content-Type": "application/x-amz-json-1.0",
                "X-Amz-Target": f"DynamoDB_20120810.{operation}",
                "Authorization": "AWS4-HMAC-SHA256 Credential=bench/20260101/us-east-1/dynamodb/"
                "aws4_request, SignedHeaders=host;x-amz-date, Signature=00",
                "X-Amz-Date": "20260101T000000Z",
            },
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.loads(reply.read())

    def prepare(self) -> None:
        self.call(
            "CreateTable",
            {
                "TableName": "Bench",
                "KeySchema": [
                    {"AttributeName": "pk", "KeyType": "HASH"},
                    {"AttributeName": "sk", "KeyType": "RANGE"},
                ],
                "AttributeDefinitions": [
                    {"AttributeName": "pk", "AttributeType": "S"},
                    {"AttributeName": "sk", "AttributeType": "N"},
                ],
                "BillingMode": "PAY_PER_REQUEST",
            },
        )
        for _ in range(200):
            described = self.call("DescribeTable", {"TableName": "Bench"})
            if described["Table"]["TableStatus"] == "ACTIVE":
                break
            time.sleep(0.05)
        for start in range(0, ITEMS, 25):
            items = [{"PutRequest": {"Item": typed_item(n)}} for n in range(start, start + 25)]
            self.call("BatchWriteItem", {"RequestItems": {"Bench": items}})

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


def workload(name: str, number: int) -> bytes:
    """The number-th request of a workload."""
    n = number * 7919 % ITEMS
    key = {"pk": {"S": f"user#{n // 20:06d}"}, "sk": {"N": str(n % 20)}}
    if name == "get":
        return request_bytes("GetItem", {"TableName": "Bench", "Key": key})
    if name == "query20":
        return request_bytes(
            "Query",
            {
                "TableName": "Bench",
                "KeyConditionExpression": "pk = :pk AND sk BETWEEN :low AND :high",
                "FilterExpression": "age < :limit",
                "ExpressionAttributeValues": {
                    ":pk": key["pk"],
                    ":low": {"N": "0"},
                    ":high": {"N": "19"},
                    ":limit": {"N": "1000000"},
                },
            },
        )
    if name == "put":
        item = {**typed_item(n), "email": {"S": f"u{number}@example.com"}}
        return request_bytes("PutItem", {"TableName": "Bench", "Item": item})
    if name == "update_add":
        return request_bytes(
            "UpdateItem",
            {
                "TableName": "Bench",
                "Key": key,
                "UpdateExpression": "ADD hits :one",
                "ExpressionAttributeValues": {":one": {"N": "1"}},
            },
        )
    if name == "batch25":
        items = [typed_item((n + offset) % ITEMS) for offset in range(25)]
        for item in items:
            item["email"] = {"S": f"b{number}@example.com"}
        puts = [{"PutRequest": {"Item": item}} for item in items]
        return request_bytes("BatchWriteItem", {"RequestItems": {"Bench": puts}})
    assert name == "transact4", name
    items = [typed_item((n + offset) % ITEMS) for offset in range(4)]
    for item in items:
        item["email"] = {"S": f"t{number}@example.com"}
    puts = [{"Put": {"TableName": "Bench", "Item": item}} for item in items]
    return request_bytes("TransactWriteItems", {"TransactItems": puts})


async def drive(port: int, requests: list[bytes], index: list[int], until: float) -> int:
    """One connection: request, whole reply, next."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    done = 0
    while time.perf_counter() < until:
        writer.write(requests[index[0] % len(requests)])
        index[0] += 1
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head[:16]:
            raise RuntimeError(head[:300])
        at = head.lower().index(b"content-length:") + 15
        await reader.readexactly(int(head[at : head.index(b"\r", at)]))
        done += 1
    writer.close()
    return done


async def load(port: int, requests: list[bytes], connections: int, seconds: float) -> int:
    index = [0]
    until = time.perf_counter() + seconds
    counts = await asyncio.gather(
        *(drive(port, requests, index, until) for _ in range(connections))
    )
    return sum(counts)


def measure(server: Server, name: str, connections: int, seconds: float) -> tuple[float, float]:
    """(requests per second, CPU microseconds of the server per request)."""
    # Twice as many as there are keys: a put that comes again always brings another value.
    requests = [workload(name, number) for number in range(2 * ITEMS)]
    cpu, began = server.cpu_seconds(), time.perf_counter()
    done = asyncio.run(load(server.port, requests, connections, seconds))
    elapsed = time.perf_counter() - began
    return done / elapsed, (server.cpu_seconds() - cpu) / done * 1e6


def find_servers(npm: Path, with_moto: bool) -> list[Server]:
    def made(name: str, command: list[str], **environment: str) -> Server:
        directory = tempfile.mkdtemp(prefix=f"bench-{name}-")
        port = free_port()
        filled = [part.format(port=port, dir=directory) for part in command]
        return Server(name, filled, port, directory, environment)

    ours = [sys.executable, "-m", "dynalsm", "serve", "{dir}/db", "--port", "{port}"]
    ours.append("--durability")
    servers = [made("dynalsm", [*ours, "os"]), made("dynalsm-commit", [*ours, "commit"])]
    dynoxide = npm / "node_modules/@dynoxide/linux-x64/dynoxide"
    if dynoxide.exists():
        servers.append(made("dynoxide-mem", [str(dynoxide), "--port", "{port}"]))
        servers.append(
            made("dynoxide-file", [str(dynoxide), "--port", "{port}", "--db-path", "{dir}/x.db"])
        )
    dynalite = npm / "node_modules/.bin/dynalite"
    if dynalite.exists():
        servers.append(
            made("dynalite-mem", [str(dynalite), "--port", "{port}", "--createTableMs", "0"])
        )
    if with_moto:
        servers.append(made("moto", [sys.executable, "-m", "moto.server", "-p", "{port}"]))
    return servers


WORKLOADS = ["get", "query20", "put", "update_add", "batch25", "transact4"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", default="1,8,64")
    parser.add_argument("--only", default="")
    parser.add_argument("--npm", type=Path, default=Path("/tmp/npm"))
    parser.add_argument("--moto", action="store_true")
    parser.add_argument("--json", default="")
    arguments = parser.parse_args()
    names = [name for name in arguments.only.split(",") if name] or WORKLOADS
    levels = [int(level) for level in arguments.connections.split(",")]
    servers = find_servers(arguments.npm, arguments.moto)
    results: dict[str, dict[str, list[tuple[float, float]]]] = {}
    idle: dict[str, float] = {}
    try:
        for server in servers:
            server.start()
            idle[server.name] = server.resident_mb()
            server.prepare()
        for _ in range(arguments.rounds):
            for name in names:
                for level in levels:
                    row = results.setdefault(f"{name} c{level}", {})
                    for server in servers:
                        try:
                            figure = measure(server, name, level, arguments.seconds)
                        except (RuntimeError, OSError, asyncio.IncompleteReadError):
                            continue  # dynalite has no transactions
                        row.setdefault(server.name, []).append(figure)
    finally:
        for server in servers:
            server.stop()
    report(servers, results, idle)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"results": results, "idle_mb": idle}, file, indent=1)


def report(
    servers: list[Server],
    results: dict[str, dict[str, list[tuple[float, float]]]],
    idle: dict[str, float],
) -> None:
    names = [server.name for server in servers]
    for position, title in enumerate(("requests/s", "server CPU, µs per request")):
        print(f"\n| {title} | " + " | ".join(names) + " |")
        print("| --- |" + " ---: |" * len(names))
        for row, figures in results.items():
            cells = [
                f"{statistics.median(each[position] for each in figures[name]):,.0f}"
                if name in figures
                else "-"
                for name in names
            ]
            print(f"| {row} | " + " | ".join(cells) + " |")
    print("\n| server | first answer (ms) | idle memory (MB) |\n| --- | ---: | ---: |")
    for server in servers:
        print(f"| {server.name} | {server.first_answer_ms:.0f} | {idle[server.name]:.0f} |")


if __name__ == "__main__":
    main()
