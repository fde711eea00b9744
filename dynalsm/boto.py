"""`boto3_session(db)`: real boto3 whose DynamoDB clients run in process on a database.

botocore builds, signs (not at all here), retries and parses as always; only its HTTP session, the
object with `send(request)`, is ours and calls the wire protocol directly. So everything on top of
boto3 runs unchanged: resources, paginators, waiters, event hooks, PynamoDB.

Thread safety: as boto3's: share clients, not sessions or resources.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dynalsm import errors
from dynalsm.server import wire

try:
    import boto3
    import botocore.loaders
    import botocore.session
    from botocore import UNSIGNED
    from botocore.awsrequest import AWSPreparedRequest, AWSResponse
    from botocore.config import Config
except ModuleNotFoundError as problem:  # pragma: no cover - depends on the installation
    raise ModuleNotFoundError(
        f"boto3_session needs {problem.name}: pip install 'dynalsm[boto]'", name=problem.name
    ) from problem

if TYPE_CHECKING:
    from dynalsm.database import Database

SERVICES = ("dynamodb", "dynamodbstreams")
# Never looked up: nothing leaves the process. ".invalid" makes sure of it (RFC 2606).
ENDPOINT = "http://dynalsm.invalid"
# botocore's models by data path. A loader caches what it has read and is never changed otherwise.
_LOADERS: dict[str | None, Any] = {}


def boto3_session(database: Database, **options: Any) -> boto3.Session:
    """Return a boto3.Session on `database`; options go to boto3.Session (region_name, ...).

        table = dynalsm.boto3_session(db).resource("dynamodb").Table("Music")

    Other services than dynamodb and dynamodbstreams work as in any session.
    """
    session = Session(database)
    options.setdefault("region_name", database.settings.region)
    made = boto3.Session(botocore_session=session, **options)
    # boto3 adds its directory of resources each time; the loader is shared, and once is enough.
    paths = session.get_component("data_loader").search_paths
    paths[:] = dict.fromkeys(paths)
    return made


class Session(botocore.session.Session):  # type: ignore[misc]
    """A botocore session that puts clients of the two services on a database."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.lazy_register_component("data_loader", self._shared_loader)
        self._http = HttpSession(database)

    def _shared_loader(self) -> Any:
        """Return a loader whose models every session shares: to parse them takes most of 40 ms."""
        path = self.get_config_variable("data_path")
        if path not in _LOADERS:
            _LOADERS[path] = botocore.loaders.create_loader(path)
        return _LOADERS[path]

    def create_client(self, service_name: str, *args: Any, **kwargs: Any) -> Any:
        """Create a client, as botocore's; ours have no network below them."""
        if service_name not in SERVICES:
            return super().create_client(service_name, *args, **kwargs)
        # By position or by name: (service, region, version, ssl, verify, url, keys..., config).
        names = ("region_name", "api_version", "use_ssl", "verify", "endpoint_url")
        kwargs.update(zip(names, args, strict=False))
        kwargs["endpoint_url"] = kwargs.get("endpoint_url") or ENDPOINT
        unsigned = Config(signature_version=UNSIGNED)
        config = kwargs.get("config")
        kwargs["config"] = config.merge(unsigned) if config is not None else unsigned
        client = super().create_client(service_name, **kwargs)
        client._endpoint.http_session = self._http
        return client


class Body:
    """The body of a reply, read once, as botocore reads urllib3's."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_options: Any) -> Iterator[bytes]:
        yield self._body

    def read(self, *_amount: Any) -> bytes:
        body, self._body = self._body, b""
        return body


class HttpSession:
    """What botocore calls to send a request; answers it from the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._service = wire.Service(database)

    def send(self, request: AWSPreparedRequest) -> AWSResponse:
        """Run one prepared request. Raises: ClosedError, which botocore passes on at once.

        As an answer (500) it would be tried again ten times, for half a minute.
        """
        if self._database.closed:
            raise errors.ClosedError("the database is closed", path=self._database.path)
        headers = {
            _as_bytes(name).lower(): _as_bytes(value) for name, value in request.headers.items()
        }
        body = request.body or b""
        if hasattr(body, "read"):
            body = body.read()
        reply = self._service.answer(
            wire.Request(request.method.encode(), b"/", headers, _as_bytes(body))
        )
        answered = {
            "x-amzn-RequestId": wire.request_id().decode(),
            "Content-Type": reply.content_type.decode(),
            "Content-Length": str(len(reply.body)),
        }
        return AWSResponse(request.url, reply.status, answered, Body(reply.body))

    def close(self) -> None:
        """Do nothing: the database owns everything that has to be closed."""


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    return str(value).encode("latin-1" if str(value).isascii() else "utf-8")
