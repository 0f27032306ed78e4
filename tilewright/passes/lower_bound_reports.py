"""Lower reports of accesses: each `report_access` becomes a store to global memory, which host code looks at.

    report_access(1, C[i])   ->   faults[1] = int64(C[i]) * 2 + 1

One slot per index that is checked, one store per report: threads that report the same index overwrite each other whole.
"""

from __future__ import annotations

from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import Call
from ..expr.operators import cast, const
from ..loops.nodes import REPORT, Allocate, BoundChecks, Buffer, Evaluate, Function, Stmt, Store, map_statements


def lower_bound_reports(function: Function, target: Target, options: Options) -> Function:
    """Give reports their memory, allocated around the whole function; host code clears it and reads it."""
    if function.checks is None:
        return function
    slots = const(len(function.checks.indices), "int32")
    faults = Buffer("faults", "int64", (slots,))

    def visit(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Evaluate) and isinstance(stmt.value, Call) and stmt.value.name == REPORT:
            slot, index = stmt.value.args
            return Store(faults, (slot,), cast("int64", index) * 2 + 1)
        return map_statements(stmt, visit)

    checks = BoundChecks(function.checks.indices, faults)
    body = Allocate(faults, visit(function.body))
    return Function(function.name, function.params, body, function.reads, checks, function.imports)
