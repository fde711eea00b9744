def hash64(data: bytes, offset: int = 0) -> int:
    """Return XXH64 (seed 0) of data[offset:], read in place."""
