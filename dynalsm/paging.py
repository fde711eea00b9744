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
        set_page_size(params, self._names, config)
        return Pages(self._method, params, self._names, config)


def set_page_size(params: dict[str, Any], names: PageNames, config: dict[str, Any]) -> None:
    """Put a PageSize into the parameters, where the operation has one."""
    if config.get("PageSize") is not None and names.page_size is not None:
        params[names.page_size] = _whole(config, "PageSize")


def _whole(config: dict[str, Any], name: str) -> int:
    try:
        return int(config[name])
    except (TypeError, ValueError):
        raise ValueError(f"{name} is a whole number, not {config[name]!r}") from None


class PageWalk:
    """One walk over the pages of a call, whoever asks for them: what to ask next, what to show."""

    def __init__(self, params: dict[str, Any], names: PageNames, config: dict[str, Any]) -> None:
        self._names = names
        self._params = dict(params)
        start, self._skip = _unpack_token(config.get("StartingToken"))
        if start is not None:
            self._params[names.start] = start
        self._left = None if config.get("MaxItems") is None else _whole(config, "MaxItems")
        self._has_ended = False
        self.resume_token: str | None = None  # where MaxItems cut the walk off

    def next_request(self) -> dict[str, Any] | None:
        """Return the parameters of the next page; None at the end."""
        return None if self._has_ended else self._params

    def take(self, page: Reply) -> Reply:
        """Return what to show of the page that was asked for."""
        names, skip, left = self._names, self._skip, self._left
        found = page.get(names.results[0], [])[skip:]
        if left is not None and len(found) > left:
            page[names.results[0]] = found[:left]
            self.resume_token = _pack_token(self._params.get(names.start), skip + left)
            self._has_ended = True
            return page
        if skip:
            page[names.results[0]] = found
        if not page.get(names.last):
            self._has_ended = True
            return page
        self._params[names.start] = page[names.last]
        self._skip = 0
        if left is not None:
            self._left = left - len(found)
            if self._left == 0:
                self.resume_token = _pack_token(self._params[names.start], 0)
                self._has_ended = True
        return page


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
        self._config = config
        self.resume_token: str | None = None

    def __iter__(self) -> Iterator[Reply]:
        walk = PageWalk(self._params, self._names, self._config)
        self.resume_token = None
        while (request := walk.next_request()) is not None:
            page = walk.take(self._method(**request))
            self.resume_token = walk.resume_token
            yield page

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


# boto3 waits 20 s between questions because it asks across a network; here the answer is near.
WAITER_DELAY_SECONDS = 0.05
WAITER_ATTEMPTS = 1200


def waiter_schedule(config: dict[str, Any]) -> tuple[float, int]:
    """Return (seconds between questions, how many) of a WaiterConfig."""
    delay_seconds = float(config.get("Delay", WAITER_DELAY_SECONDS))
    return delay_seconds, int(config.get("MaxAttempts", WAITER_ATTEMPTS))


class Waiter:
    """Asks again and again until a state is reached."""

    def __init__(self, name: str, client: Any, reached: Callable[[str | None], bool]) -> None:
        self.name = name
        self._client = client
        self._reached = reached

    def wait(self, WaiterConfig: dict[str, Any] | None = None, **params: Any) -> None:
        """Block until the state is reached. WaiterConfig: Delay (seconds), MaxAttempts."""
        config = WaiterConfig or {}
        delay_seconds, attempts = waiter_schedule(config)
        for attempt in range(attempts):
            if attempt:
                time.sleep(delay_seconds)
            if self._reached(self._status(params)):
                return
        raise WaiterError(f"Waiter {self.name} failed: Max attempts exceeded")

    def _status(self, params: dict[str, Any]) -> str | None:
        try:
            status: str = self._client.describe_table(**params)["Table"]["TableStatus"]
        except errors.API_ERRORS["ResourceNotFoundException"]:
            return None
        return status


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
