"""The command line: `tilewright ladder conv1d`, `tilewright run script.py`."""

from .app import main as main
