"""Paginators and waiters in the shape of botocore's, for the clients of dynalsm.client.

A paginator knows four names of its operation: the member that starts a page, the member that says
where the page ended, the page size, and the lists that the pages carry.

Thread safety: paginators and waiters hold only configuration; a `Pages` belongs to one thread.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from dynalsm import errors

Reply = dict[str, Any]


class WaiterError(errors.Error):
    """A waiter gave up: the state did not come within its attempts."""


@dataclass(frozen=True, slots=True)
class PageNames:
    """How one operation speaks of its pages."""

    start: str
    last: str
    page_size: str | None
    results: tuple[str, ...]


class Paginator:
    """Follows the pages of one operation."""

    def __init__(self, method: Callable[..., Reply], names: PageNames) -> None:
        self._method = method
        self._names = names

    def paginate(self, PaginationConfig: dict[str, Any] | None = None, **params: Any) -> Pages:
        """Return an iterable of replies. PaginationConfig: MaxItems, PageSize, StartingToken."""
        config = PaginationConfig or {}
        if config.get("PageSize") is not None and self._names.page_size is not None:
            params[self._names.page_size] = int(config["PageSize"])
        return Pages(self._method, params, self._names, config)


class Pages:
    """The pages of one paginated call; iterating again starts again.

    `resume_token` says where MaxItems cut the last iteration off (None: it reached the end); it
    goes into StartingToken of another call.
    """

    def __init__(
        self,
        method: Callable[..., Reply],
        params: dict[str, Any],
        names: PageNames,
        config: dict[str, Any],
    ) -> None:
        self._method, self._params, self._names = method, params, names
        limit = config.get("MaxItems")
        self._limit_items = None if limit is None else int(limit)
        self._starting_token = config.get("StartingToken")
        self.resume_token: str | None = None

    def __iter__(self) -> Iterator[Reply]:
        names = self._names
        params = dict(self._params)
        start, skip = _unpack_token(self._starting_token)
        if start is not None:
            params[names.start] = start
        left = self._limit_items
        self.resume_token = None
        while True:
            page = self._method(**params)
            found = page.get(names.results[0], [])[skip:]
            if left is not None and len(found) > left:
                page[names.results[0]] = found[:left]
                self.resume_token = _pack_token(params.get(names.start), skip + left)
                yield page
                return
            if skip:
                page[names.results[0]] = found
            yield page
            if not page.get(names.last):
                return
            params[names.start] = page[names.last]
            skip = 0
            if left is not None:
                left -= len(found)
                if left == 0:
                    self.resume_token = _pack_token(params[names.start], 0)
                    return

    def build_full_result(self) -> Reply:
        """Return one reply with the results of all pages together."""
        whole: Reply = {}
        for page in self:
            for name, value in page.items():
                if name in self._names.results:
                    whole[name] = whole[name] + value if name in whole else value
                elif name not in (self._names.last, "ResponseMetadata"):
                    whole.setdefault(name, value)
        if self.resume_token is not None:
            whole["NextToken"] = self.resume_token
        return whole

    def search(self, expression: str) -> Iterator[Any]:
        """Yield what a JMESPath expression finds in each page (needs the jmespath package)."""
        import jmespath

        compiled = jmespath.compile(expression)
        for page in self:
            found = compiled.search(page)
            if isinstance(found, list):
                yield from found
            else:
                yield found


class Waiter:
    """Asks again and again until a state is reached."""

    # boto3 waits 20 s between questions because it asks across a network; here the answer is near.
    DELAY_SECONDS = 0.05
    MAX_ATTEMPTS = 1200

    def __init__(
        self, name: str, client: Any, reached: Callable[[Any, dict[str, Any]], bool]
    ) -> None:
        self.name = name
        self._client = client
        self._reached = reached

    def wait(self, WaiterConfig: dict[str, Any] | None = None, **params: Any) -> None:
        """Block until the state is reached. WaiterConfig: Delay (seconds), MaxAttempts."""
        config = WaiterConfig or {}
        delay_seconds = float(config.get("Delay", self.DELAY_SECONDS))
        attempts = int(config.get("MaxAttempts", self.MAX_ATTEMPTS))
        for attempt in range(attempts):
            if attempt:
                time.sleep(delay_seconds)
            if self._reached(self._client, params):
                return
        raise WaiterError(f"Waiter {self.name} failed: Max attempts exceeded")


def _pack_token(start: Any, skip: int) -> str:
    text = json.dumps({"start": start, "skip": skip}, default=_bytes_to_json)
    return base64.b64encode(text.encode()).decode()


def _unpack_token(token: str | None) -> tuple[Any, int]:
    if token is None:
        return None, 0
    try:
        fields = json.loads(base64.b64decode(token, validate=True), object_hook=_bytes_from_json)
        return fields["start"], int(fields["skip"])
    except (ValueError, KeyError, TypeError) as problem:
        raise ValueError(f"Bad starting token: {token}") from problem


def _bytes_to_json(value: Any) -> dict[str, str]:
    return {"__bytes__": base64.b64encode(bytes(value)).decode()}


def _bytes_from_json(value: dict[str, Any]) -> Any:
    return base64.b64decode(value["__bytes__"]) if set(value) == {"__bytes__"} else value
