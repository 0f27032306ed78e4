"""The schedule primitives, one file each: pure functions from a schedule to a schedule and new axes."""
