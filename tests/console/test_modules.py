"""The parts of the page that need no page: signing, values, JSON. Run by Node."""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dynalsm.server import console
from dynalsm.server.auth import AccessKey, Verifier
from dynalsm.server.wire import Request
from dynalsm.values import encode_json_item, item_size

SEED = random.randrange(2**32)
NODE_MAJOR = 18

ITEMS: list[dict[str, Any]] = [
    {},
    {"a": {"S": 'quotes " \\ and \n\t lines, \u2028, \U0001f3b8 and nothing \u0000'}},
    {"n": {"N": "12345678901234567890123456789012345678"}, "m": {"N": "-0.000001"}},
    {"b": {"B": "AAEC/w=="}, "e": {"B": ""}, "bs": {"BS": ["AA==", "AQ=="]}},
    {"t": {"BOOL": True}, "f": {"BOOL": False}, "z": {"NULL": True}},
    {"ss": {"SS": ["a", ""]}, "ns": {"NS": ["1", "-2.5", "1e+100"]}},
    {"l": {"L": [{"S": "x"}, {"L": []}, {"M": {}}, {"N": "0"}]}},
    # Maps that look like values of a type.
    {"m": {"M": {"SS": {"S": "x"}}}, "n": {"M": {"M": {"M": {"B": {"N": "1"}}}}}, "S": {"S": "S"}},
    {"__proto__": {"S": "p"}, "constructor": {"M": {"__proto__": {"N": "1"}}}},
]
PARSE_MISTAKES = {
    "": (1, 1), "[]": None, '{"a" 1}': (1, 6), '{"a": 1,}': (1, 9), '{"a": 1} x': (1, 10),
    '{\n "a": tru}': (2, 7), '{"a": "\n"}': (1, 7), '{"a": 1, "a": 2}': (1, 10),
    '{"a": [1 2]}': (1, 10),
}  # fmt: skip
PLAIN_MISTAKES = {
    '{"a": {"SS": []}}': "at least one", '{"a": {"SS": ["x", "x"]}}': "each member once",
    '{"a": {"NS": [1, 1.0]}}': "each member once", '{"a": {"B": "A"}}': "base64",
    '{"a": 1e126}': "too large", '{"a": 1e-131}': "too small", '{"a": {"SS": [1]}}': "quotes",
    '{"a": 123456789012345678901234567890123456789}': "38 digits",
}  # fmt: skip
WIRE_MISTAKES = {
    '{"a": 1}': "one type", '{"a": {}}': "one type", '{"a": {"S": "x", "N": "1"}}': "one type",
    '{"a": {"X": 1}}': "no type", '{"a": {"N": "x"}}': "no number", '{"a": {"M": []}}': "object",
    '{"a": {"BOOL": "true"}}': "true or false", '{"a": {"NULL": false}}': "true",
    '{"a": {"L": {}}}': "list",
    '{"a": {"M": {"b": {"L": [{"S": 1}]}}}}': "quotes",
}  # fmt: skip


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's scripts where Node takes them for modules."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node.js (apt-get install nodejs)")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True)
    if int(version.stdout.lstrip("v").split(".")[0]) < NODE_MAJOR:
        pytest.skip(f"needs Node.js {NODE_MAJOR} or newer, there is {version.stdout.strip()}")
    home = tmp_path_factory.mktemp("modules")
    (home / "package.json").write_text('{"type": "module"}')
    for path, file in console.page_files().items():
        if path.endswith(b".js"):
            (home / path.decode().rpartition("/")[2]).write_bytes(file.body)
    return home


def run(modules: Path, script: str, given: Any = None) -> Any:
    """Run a script that gets `given` and prints its answer by tell(...)."""
    prelude = (
        'import { readFileSync } from "node:fs";\n'
        'const given = JSON.parse(readFileSync(0, "utf8"));\n'
        "const tell = (answer) => console.log(JSON.stringify(answer));\n"
    )
    (modules / "script.js").write_text(prelude + script)
    done = subprocess.run(
        ["node", "script.js"], cwd=modules, input=json.dumps(given), capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_script_can_be_read(modules: Path) -> None:
    for script in sorted(modules.glob("*.js")):
        done = subprocess.run(
            ["node", "--check", script], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def test_hashes_are_those_of_the_standard(modules: Path) -> None:
    """Both ways: the browser's own, and the one for pages without it."""
    chance = random.Random(SEED)
    print("seed", SEED)
    sizes = [0, 1, 55, 56, 57, 63, 64, 65, 119, 120, 1000, chance.randrange(5000)]
    texts = [chance.randbytes(size).hex() for size in sizes]
    answer = run(
        modules,
        """
        import { hex, hmac, plainHmac, plainSha256, sha256 } from "./sha256.js";
        const all = [];
        for (const text of given) {
          const data = Uint8Array.from(Buffer.from(text, "hex"));
          all.push([hex(plainSha256(data)), hex(await sha256(data)), hex(plainHmac(data, data)),
            data.length ? hex(await hmac(data, data)) : null]);
        }
        tell(all);
        """,
        texts,
    )
    for text, (plain, native, plain_mac, native_mac) in zip(texts, answer, strict=True):
        data = bytes.fromhex(text)
        assert plain == native == hashlib.sha256(data).hexdigest()
        assert plain_mac == hmac.digest(data, data, "sha256").hex()
        assert native_mac in (plain_mac, None)


def test_the_server_takes_the_signature(modules: Path) -> None:
    secret = "s3cr3t/+="
    requests = [
        {"method": "POST", "path": "/", "body": '{"TableName": "Müsik"}'},
        {"method": "GET", "path": "/_console/api/stats", "body": ""},
        {"method": "GET", "path": "/_console/api/partitions", "body": "",
         "query": {"tree": "t/1/g/By (the) *Year*!' ä"}},
    ]  # fmt: skip
    answer = run(
        modules,
        """
        import { queryText, sign } from "./sigv4.js";
        const all = [];
        for (const { query, ...one } of given.requests) {
          const headers = { "x-amz-target": "X.y" };
          const text = queryText(query);
          const made = await sign({ ...one, headers, host: "h:1", query: text, region: "eu-west-1",
            keys: { id: "AKID", secret: given.secret } });
          all.push([text, { ...headers, ...made, host: "h:1" }]);
        }
        tell(all);
        """,
        {"requests": requests, "secret": secret},
    )
    verifier = Verifier([AccessKey("AKID", secret)])
    for request, (query, headers) in zip(requests, answer, strict=True):
        url = str(request["path"]) + (f"?{query}" if query else "")
        sent = Request(
            str(request["method"]).encode(),
            url.encode(),
            {name.encode(): value.encode() for name, value in headers.items()},
            str(request["body"]).encode(),
        )
        assert verifier.verify(sent).id == "AKID"


def test_items_survive_both_ways_of_writing_them(modules: Path) -> None:
    answer = run(
        modules,
        """
        import { parse } from "./json.js";
        import { canonical, itemBytes, itemFrom, itemText } from "./values.js";
        tell(given.map((item) => {
          const plain = itemFrom(parse(itemText(item, true)), true);
          const wire = itemFrom(parse(itemText(item, false)), false);
          return [canonical({ M: plain }) === canonical({ M: item }),
            canonical({ M: wire }) === canonical({ M: item }), plain, itemBytes(item)];
        }));
        """,
        ITEMS,
    )
    for item, (is_plain_same, is_wire_same, plain, size) in zip(ITEMS, answer, strict=True):
        assert is_plain_same
        assert is_wire_same
        stored = encode_json_item(item)
        assert encode_json_item(plain) == stored  # the engine's own opinion
        assert abs(size - item_size(stored)) <= 2 * len(item)


def test_equal_numbers_are_equal(modules: Path) -> None:
    same = [["1", "1.0"], ["10", "1e1"], ["-0", "0"], ["0.010", "1E-2"], ["+5", "5"]]
    other = [["1", "-1"], ["10", "1"], ["0.1", "0.01"], ["1e2", "1e3"]]
    answer = run(
        modules,
        """
        import { canonicalNumber } from "./values.js";
        tell(given.map(([a, b]) => canonicalNumber(a) === canonicalNumber(b)));
        """,
        same + other,
    )
    assert answer == [True] * len(same) + [False] * len(other)


def test_mistakes_are_named_where_they_are(modules: Path) -> None:
    answer = run(
        modules,
        """
        import { Mistake, parse, placeOf } from "./json.js";
        import { itemFrom } from "./values.js";
        const look = (text, isPlain) => {
          try {
            itemFrom(parse(text), isPlain);
            return ["taken"];
          } catch (error) {
            if (!(error instanceof Mistake)) throw error;
            return [error.message, error.at === null ? null : placeOf(text, error.at), error.path];
          }
        };
        tell([given.parse.map((one) => look(one, true)), given.plain.map((one) => look(one, true)),
          given.wire.map((one) => look(one, false))]);
        """,
        {"parse": [*PARSE_MISTAKES], "plain": [*PLAIN_MISTAKES], "wire": [*WIRE_MISTAKES]},
    )
    parsed, plain, wire = answer
    for (text, place), (message, found, *_) in zip(PARSE_MISTAKES.items(), parsed, strict=True):
        assert message != "taken", text
        if place is not None:
            assert (found["line"], found["column"]) == place, (text, message)
    for wanted, answers in ((PLAIN_MISTAKES, plain), (WIRE_MISTAKES, wire)):
        for (text, fragment), (message, _, path) in zip(wanted.items(), answers, strict=True):
            assert fragment in message, (text, message)
            assert path.startswith("a"), text
    assert wire[-1][2] == "a.b.[0]"


def test_a_change_names_what_it_found(modules: Path) -> None:
    old = {"k": {"S": "1"}, "same": {"N": "1.0"}, "gone": {"S": "x"}, "new": {"S": "a"}}
    item = {"k": {"S": "1"}, "same": {"N": "1"}, "new": {"S": "b"}, "more": {"L": []}}
    changed, request, nothing, kept = run(
        modules,
        """
        import { changeOf, unchanged } from "./changeset.js";
        const { changed, request } = changeOf(given.old, given.item, ["k"]);
        const nothing = changeOf(given.old, given.old, ["k"]).changed;
        tell([changed, request, nothing, unchanged(given.old, ["k"])]);
        """,
        {"old": old, "item": item},
    )
    assert changed == ["gone", "new", "more"]
    assert request["UpdateExpression"] == "SET #1=:n1,#2=:n2 REMOVE #0"
    assert request["ConditionExpression"] == (
        "attribute_exists(#k) AND #0=:o0 AND #1=:o1 AND attribute_not_exists(#2)"
    )
    names = {"#k": "k", "#0": "gone", "#1": "new", "#2": "more"}
    assert request["ExpressionAttributeNames"] == names
    assert nothing == []
    assert kept["ConditionExpression"] == "attribute_exists(#k) AND #0=:o0 AND #1=:o1 AND #2=:o2"


def test_quantiles_lie_in_their_buckets(modules: Path) -> None:
    answer = run(
        modules,
        """
        import { quantile } from "./samples.js";
        tell(given.map(([buckets, share]) => quantile(buckets, [1, 10, 100], share)));
        """,
        [[[0, 0, 0, 0], 0.5], [[4, 0, 0, 0], 0.5], [[0, 10, 0, 0], 0.5], [[0, 10, 0, 0], 1],
         [[0, 0, 0, 3], 0.9], [[1, 0, 1, 0], 0.99]],
    )  # fmt: skip
    assert answer[0] is None
    assert 1 / 3 < answer[1] < 1
    assert answer[2] == pytest.approx(10**0.5)
    assert answer[3] == pytest.approx(10)
    assert answer[4] == 100
    assert 10 < answer[5] <= 100
