"""lower_bound_reports: each `report_access` becomes a store to global memory, which host code looks at.

    report_access(1, C[i])                 ->   faults[1] = int64(C[i]) * 2 + 1
    assertion_failed("no rows", "f.py:7")  ->   faults[2] = 1

One slot per index that is checked, one store per report: threads that report the same index overwrite each other whole.
"""

from __future__ import annotations

from ..core.options import Options
from ..core.target import Target
from ..expr.effects import FAILED, SEEN
from ..expr.nodes import Call
from ..expr.operators import cast, const
from ..loops.assertions import failure
from ..loops.nodes import (
    REPORT,
    Allocate,
    Assertion,
    BoundChecks,
    Buffer,
    Evaluate,
    Function,
    Stmt,
    Store,
    map_statements,
)
from ..loops.walk import statements


def lower_bound_reports(function: Function, target: Target, options: Options) -> Function:
    """Give reports their memory, allocated around the whole function; host code clears it and reads it."""
    indices = [] if function.checks is None else [*function.checks.indices]
    at: dict[Assertion, int] = {}
    for stmt in statements(function.body) if FAILED in SEEN else ():
        said = failure(stmt)
        if said is not None and said not in at:
            at[said] = len(indices)
            indices.append(said)
    if not indices:
        return function
    faults = Buffer("faults", "int64", (const(len(indices), "int32"),))

    def visit(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Evaluate) and isinstance(stmt.value, Call) and stmt.value.name == REPORT:
            slot, index = stmt.value.args
            return Store(faults, (slot,), cast("int64", index) * 2 + 1)
        said = failure(stmt) if at else None
        if said is not None:
            return Store(faults, (const(at[said], "int32"),), const(1, "int64"))
        return map_statements(stmt, visit)

    checks = BoundChecks(tuple(indices), faults)
    body = Allocate(faults, visit(function.body))
    return Function(function.name, function.params, body, function.reads, checks, function.imports)
