"""Runs functions of the loop grammar in NumPy: the oracle for the meaning of programs.

`run` executes statements, `values` expressions. `machine` holds the state of a running function, `grid` the threads of
a kernel, and `memory` the storage. `races` has the accesses of each element since the last barrier.
"""

from .memory import InterpretError as InterpretError
from .run import interpret as interpret
