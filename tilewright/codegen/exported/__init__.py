"""Compiled programs for callers in C: entry points of pointers and sizes, a header, object files, shared libraries."""
