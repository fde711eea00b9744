"""OpenTelemetry spans: one for each operation of a database, wherever it comes from.

    from dynalsm import telemetry

    telemetry.instrument(db)          # first thing after open(): clients, tables and servers follow

Spans go to the tracer provider that the program, or `opentelemetry-instrument`, has set up; without
one they cost next to nothing. Names and attributes follow the semantic conventions for databases.
Needs the extra `telemetry`.

Thread safety: instrument() belongs before the first use of the database; spans may come from any
thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynalsm import errors
from dynalsm._version import __version__
from dynalsm.values.forms import WIRE

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from dynalsm.database import Call, Database

SYSTEM = "aws.dynamodb"


def instrument(database: Database, tracer_provider: TracerProvider | None = None) -> None:
    """Make a span of each operation from now on. Raises: ValueError when that is so already."""
    try:
        from opentelemetry import trace
    except ModuleNotFoundError as problem:
        raise ModuleNotFoundError(
            f"spans need {problem.name}: pip install 'dynalsm[telemetry]'", name=problem.name
        ) from None
    if hasattr(database.call, "is_traced"):
        raise ValueError("the database is instrumented already")
    tracer = trace.get_tracer("dynalsm", __version__, tracer_provider)
    database.call = _traced(database.call, tracer, trace)
    # The clients were made with the call that is not traced.
    database._add_faces()


def _traced(run: Call, tracer: Any, trace: Any) -> Call:
    def call(operation: str, request: dict[str, Any], form: Any = WIRE, /) -> dict[str, Any]:
        attributes = {"db.system.name": SYSTEM, "db.operation.name": operation}
        name = request.get("TableName")
        if isinstance(name, str):
            attributes["db.collection.name"] = name
        with tracer.start_as_current_span(
            f"{operation} {name}" if isinstance(name, str) else operation,
            kind=trace.SpanKind.CLIENT,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                return run(operation, request, form)
            except Exception as error:
                code = error.code if isinstance(error, errors.ApiError) else type(error).__name__
                span.set_attribute("error.type", code)
                span.set_status(trace.StatusCode.ERROR, str(error))
                raise

    call.is_traced = True  # type: ignore[attr-defined]
    return call
