"""DynamoDB's HTTP protocol: `serve(database)`, or `ServerThread(database)` beside other work."""

from dynalsm.server.run import ServeError, ServerThread, serve

__all__ = ["ServeError", "ServerThread", "serve"]
