"""The tests again, against a core that watches its own memory and threads: see __main__.py."""
