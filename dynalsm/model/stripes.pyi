from typing import final

class LockTimeout(Exception):
    """Another transaction held an item for too long."""

@final
class Stripes:
    """All stripes of one database."""

    def barrier(self) -> None:
        """Return when every lock that is held now has been released."""
