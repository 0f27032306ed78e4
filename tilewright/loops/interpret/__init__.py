"""Runs functions of the loop grammar in NumPy: the oracle for what a program means.

`run` executes statements, `values` expressions; `machine` holds what a running function knows, `grid` the
threads of a kernel, `memory` the storage, `races` who touched which element since the last barrier.
"""

from .memory import InterpretError as InterpretError
from .run import interpret as interpret
