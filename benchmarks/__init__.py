"""Benchmarks: run `python -m benchmarks.NAME` from the repository's root."""
