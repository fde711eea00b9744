"""Load: many items, large ones, many tables, long runs; what they may cost in time and memory."""
