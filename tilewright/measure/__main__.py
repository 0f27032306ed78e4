"""Starts the measurement server: `python -m tilewright.measure DESCRIPTOR KIND DEVICES FOLDER CALLER`."""

from __future__ import annotations

import sys

from .server import main

if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
