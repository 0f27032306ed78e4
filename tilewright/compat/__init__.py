"""All that only the legacy API needs; `core/other_paths.py` gives these modules the import paths that scripts use."""
