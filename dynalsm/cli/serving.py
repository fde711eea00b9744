"""`dynalsm serve`: DynamoDB's HTTP protocol on a database directory.

A server is started often and stays: this command is parsed by argparse and imports neither typer
nor rich, which would cost half of the time to the first answer and a quarter of the idle memory.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dynalsm.cli import keys, logs
from dynalsm.cli.failures import check_parent, guarded, tell_plainly


def parser() -> argparse.ArgumentParser:
    """The options of `dynalsm serve`."""
    made = argparse.ArgumentParser(
        prog="dynalsm serve",
        description="Serve a database to boto3, the AWS CLI and every other DynamoDB client.",
    )
    add = made.add_argument
    add("path", help="The database directory; made when missing, its parents not.")
    add("--host", default="127.0.0.1", help="Address to listen on (%(default)s).")
    add("--port", type=int, default=8000, help="Port; 0 takes a free one (%(default)s).")
    add("--auth", type=Path, help='JSON file with keys: {"keys": [{"id": "…", "secret": "…"}]}.')
    add(
        "--allow-anonymous",
        action="store_true",
        help="Listen beyond this machine without checking signatures.",
    )
    add(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="A further host name of this server, where no keys are set; may hold *.",
    )
    add(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="A site whose pages may use this server, where no keys are set; * for all of them.",
    )
    add("--tls-cert", type=Path, help="PEM certificate, for https.")
    add("--tls-key", type=Path, help="PEM private key, for https.")
    add(
        "--metrics",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="Offer GET /metrics, which asks for a key where keys are set (on by default).",
    )
    add(
        "--console",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="Offer a web page at /_console; by default where only this machine can reach it.",
    )
    add(
        "--trace",
        action="store_true",
        help="Make OpenTelemetry spans; run it under opentelemetry-instrument.",
    )
    add(
        "--log-format",
        choices=logs.FORMATS,
        default="text",
        help="Logs (on stderr) as text, or as one JSON object a line (%(default)s).",
    )
    add("--durability", default="commit", help="commit, interval or os (%(default)s).")
    add(
        "--memory-mib",
        type=int,
        default=256,
        metavar="MIB",
        help="For write buffers, cache, indexes and filters (%(default)s).",
    )
    add("--region", default="us-east-1", help="The region in ARNs (%(default)s).")
    add("--enforce-throughput", action="store_true", help="Throttle provisioned tables.")
    add(
        "--table-delay",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="Keep tables CREATING and DELETING so long, to test waiters (%(default)s).",
    )
    add(keys.OPTION, default=keys.key_file(), metavar="FILE", help=keys.HELP)
    add("--bucket-root", help="Directory of the directories that stand in for S3 buckets.")
    return made


def run(arguments: list[str]) -> int:
    """Parse, serve until a signal, and return the exit code."""
    return guarded(lambda: serve(parser().parse_args(arguments)), tell_plainly)


def serve(options: argparse.Namespace) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP. Raises: errors.Error, ValueError, OSError."""
    from dynalsm.database import open_path
    from dynalsm.server.auth import Verifier, load_keys
    from dynalsm.server.run import ServeError, check_host, tls_context
    from dynalsm.server.run import serve as run_server

    logs.set_up(options.log_format)
    # Everything that can be wrong on the command line is looked at before the database opens.
    if "://" in options.path:
        raise ServeError(f"{options.path} is an address; serve takes a database directory")
    check_parent(options.path)
    if not 0 <= options.port <= 65535:
        raise ServeError(f"there is no port {options.port}: give 0 to 65535")
    if options.memory_mib < 1:
        raise ServeError(f"--memory-mib is a number from 1, not {options.memory_mib}")
    if not 0 <= options.table_delay < float("inf"):
        raise ServeError(f"--table-delay is a number of seconds from 0, not {options.table_delay}")
    verifier = Verifier(load_keys(options.auth)) if options.auth is not None else None
    check_host(options.host, verifier, options.allow_anonymous)
    if (options.tls_cert is None) != (options.tls_key is None):
        raise ServeError("https needs both --tls-cert and --tls-key")
    tls = tls_context(str(options.tls_cert), str(options.tls_key)) if options.tls_cert else None
    with open_path(
        options.path,
        durability=options.durability,
        memory_bytes=options.memory_mib << 20,
        region=options.region,
        endpoint=f"{options.host}:{options.port}",
        enforce_throughput=options.enforce_throughput,
        bucket_root=options.bucket_root,
        encryption_key=options.encryption_key_file,
        table_delay_seconds=options.table_delay,
    ) as database:
        if options.trace:
            from dynalsm import telemetry

            telemetry.instrument(database)
        run_server(
            database,
            options.host,
            options.port,
            verifier=verifier,
            allow_anonymous=options.allow_anonymous,
            tls=tls,
            has_metrics=options.metrics,
            has_console=options.console,
            allow_hosts=options.allow_host,
            allow_origins=options.allow_origin,
            on_ready=lambda url: print(
                f"dynalsm serves {options.path} at {url} (Ctrl-C stops)", flush=True
            ),
        )
    print("stopped; the database is closed", flush=True)
