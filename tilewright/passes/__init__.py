"""Passes over loop programs, one file each; `pipeline.py` lists them in order."""
