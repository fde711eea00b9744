"""`dynalsm serve`: DynamoDB's HTTP protocol on a database directory."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from dynalsm.cli import output


def add_commands(app: typer.Typer) -> None:
    """Add serve."""
    app.command()(serve)


def serve(
    path: Annotated[str, typer.Argument(help="The database directory; made when missing.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8000,
    auth: Annotated[
        Path | None,
        typer.Option(help='JSON file with keys: {"keys": [{"id": "...", "secret": "..."}]}.'),
    ] = None,
    allow_anonymous: Annotated[
        bool,
        typer.Option(
            "--allow-anonymous", help="Listen beyond this machine without checking signatures."
        ),
    ] = False,
    tls_cert: Annotated[Path | None, typer.Option(help="PEM certificate, for https.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM private key, for https.")] = None,
    metrics: Annotated[
        bool | None,
        typer.Option(
            "--metrics/--no-metrics", help="Offer GET /metrics; by default where no keys are set."
        ),
    ] = None,
    durability: Annotated[str, typer.Option(help="commit (default), interval or os.")] = "commit",
    region: Annotated[str, typer.Option(help="The region in ARNs.")] = "us-east-1",
    enforce_throughput: Annotated[
        bool, typer.Option("--enforce-throughput", help="Throttle provisioned tables.")
    ] = False,
) -> None:
    """Serve a database to boto3, the AWS CLI and every other DynamoDB client."""
    from dynalsm.database import open_path
    from dynalsm.server.auth import Verifier, load_keys
    from dynalsm.server.run import ServeError, check_host, tls_context
    from dynalsm.server.run import serve as run_server

    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # Everything that can be wrong on the command line is looked at before the database opens.
    verifier = Verifier(load_keys(auth)) if auth is not None else None
    check_host(host, verifier, allow_anonymous)
    if (tls_cert is None) != (tls_key is None):
        raise ServeError("https needs both --tls-cert and --tls-key")
    tls = tls_context(str(tls_cert), str(tls_key)) if tls_cert and tls_key else None
    address = f"{host}:{port}"
    with open_path(
        path,
        durability=durability,
        region=region,
        endpoint=address,
        enforce_throughput=enforce_throughput,
    ) as database:
        run_server(
            database,
            host,
            port,
            verifier=verifier,
            allow_anonymous=allow_anonymous,
            tls=tls,
            has_metrics=metrics if metrics is not None else verifier is None,
            on_ready=lambda url: output.console.print(
                f"dynalsm serves [bold]{path}[/] at [bold]{url}[/] (Ctrl-C stops)", soft_wrap=True
            ),
        )
    output.console.print("stopped; the database is closed")
