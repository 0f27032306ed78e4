"""What is measured, and how: `python -m benchmarks.NAME` from the repository's root."""
