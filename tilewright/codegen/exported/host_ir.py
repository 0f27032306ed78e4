"""Entry points of programs for the CPU, as LLVM IR beside the program's own."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.dtype import INT64
from ...core.errors import UserError
from ...expr import nodes as n
from ...expr import operators as op
from ...loops.nodes import Allocate, Buffer, Evaluate, Stmt
from ..host_walk import HostVisitor
from ..kernel import Kernel, root
from ..llvm.binding import PACKED
from ..llvm.compile import Processor
from ..llvm.expr import LLVMExprWriter
from ..llvm.mathlib import MathLibrary
from ..llvm.types import LLVMValue, memory_type, value_type
from ..llvm.writer import FunctionWriter, ModuleWriter
from .elf import SECTION
from .signature import DONE, OUT_OF_MEMORY, WRONG_SIZE, CSignature, scalar_c_type

_ALIGN = 64


def entry_points(signatures: Sequence[CSignature], kernels: Sequence[Sequence[Kernel]], machine: Processor) -> str:
    """A module that defines the entry points, and declares the functions they call."""
    module = ModuleWriter(machine)
    library = MathLibrary(module)
    for signature, own in zip(signatures, kernels, strict=True):
        module.symbol(signature.name)
        module.functions.append(_Entry(module, library, signature, own).text())
    return module.text(["entry points for C"])


class _Entry(HostVisitor):
    """Writes one entry point."""

    def __init__(
        self, module: ModuleWriter, library: MathLibrary, signature: CSignature, kernels: Sequence[Kernel]
    ) -> None:
        super().__init__(kernels)
        self.module = module
        self.signature = signature
        self.out = FunctionWriter(module, [p.name for p in signature.parameters])
        self.expr = LLVMExprWriter(self.out, library, _no_memory, False)
        self.values: dict[Buffer | n.Var, LLVMValue] = {}
        self.held: list[LLVMValue] = []
        """The memory to free if the function ends here."""

    def text(self) -> str:
        """The function."""
        for p in self.signature.parameters:
            kind = "ptr" if isinstance(p.value, Buffer) else _passed(p.value)
            self.values[p.value] = LLVMValue(kind, f"%{p.name}")
            if isinstance(p.value, n.Var) and p.value.dtype.is_int:
                self.expr.variables[p.value] = LLVMValue(value_type(p.value.dtype), f"%{p.name}")
        for condition in self.signature.requires:
            with self.expr.scope():
                holds = self.expr(condition)
            self._unless(holds, WRONG_SIZE)
        self.visit(self.signature.function.body)
        self.out.give(f"i32 {DONE}")
        arguments = ", ".join(str(self.values[p.value]) for p in self.signature.parameters)
        return self.out.text(f"define i32 @{self.signature.name}({arguments})")

    def _unless(self, holds: LLVMValue, status: int) -> None:
        """Return a status if a condition does not hold."""
        wrong, right = self.out.label("wrong"), self.out.label("right")
        self.out.branch_if(holds, right, wrong)
        self.out.start(wrong)
        for memory in reversed(self.held):
            self._free(memory)
        self.out.give(f"i32 {status}")
        self.out.start(right)

    def other(self, s: Stmt) -> None:
        """Raise an error for a statement that has an effect."""
        if not (isinstance(s, Evaluate) and isinstance(s.value, n.IntImm)):
            raise UserError(
                f"the host code of {self.signature.function.name!r} has a {type(s).__name__}, such as a call of a "
                "Python function. A library for C can only run compiled loops",
                primitive="export_library",
                fix="call C functions by tir.call_extern, or save the module as an archive for Python: "
                "save('module.tw')",
            )

    def launch(self, kernel: Kernel) -> None:
        """Call the function of the kernel with the address of its arguments."""
        packed = self.out.alloca("i64", max(1, len(kernel.params)), 8, "arguments")
        for slot, p in enumerate(kernel.params):
            at = self.out.op("ptr", f"getelementptr i64, {packed}, i64 {slot}", "slot")
            self.out.do(f"store {self.values[root(p) if isinstance(p, Buffer) else p]}, {at}")
        callee = self.module.declare(kernel.name + PACKED, "i32", ["ptr"])
        status = self.out.op("i32", f"call i32 @{callee}({packed})", "status")
        self._unless(self.out.op("i1", f"icmp eq {status}, 0"), OUT_OF_MEMORY)

    def allocate(self, s: Allocate) -> None:
        """Allocate memory, and free it after the statements within."""
        size: n.Expr = n.IntImm(s.buffer.dtype.bytes, INT64)
        for extent in s.buffer.shape:
            size = op.multiply(size, op.cast("int64", extent))
        whole = op.multiply(op.floordiv(op.add(size, _ALIGN), _ALIGN), _ALIGN)  # never nothing
        with self.expr.scope():
            count = self.expr(whole)
        callee = self.module.declare("aligned_alloc", "ptr", ["i64", "i64"])
        memory = self.out.op("ptr", f"call ptr @{callee}(i64 {_ALIGN}, {count})", s.buffer.name)
        self._unless(self.out.op("i1", f"icmp ne {memory}, null"), OUT_OF_MEMORY)
        self.values[s.buffer] = memory
        self.held.append(memory)
        self.visit(s.body)
        self._free(self.held.pop())

    def _free(self, memory: LLVMValue) -> None:
        self.out.do(f"call void @{self.module.declare('free', 'void', ['ptr'])}({memory})")


def _passed(size: n.Var) -> str:
    """The type in which a number is passed, and stands among a kernel's arguments."""
    return "float" if scalar_c_type(size.dtype) == "float" else memory_type(size.dtype)


def _no_memory(load: n.Load, mask: LLVMValue | None) -> LLVMValue:
    raise UserError(
        f"`{load}` is part of a check of the arguments, which a library for C does not make",
        primitive="export_library",
        fix="save the module as an archive for Python: save('module.tw')",
    )


def embedded(archive: bytes) -> str:
    """A module with the bytes of an archive in a separate section."""
    text = "".join(f"\\{byte:02X}" for byte in archive)
    kind = f"[{len(archive)} x i8]"
    return (
        f'@tilewright_module = internal constant {kind} c"{text}", section "{SECTION}", align 8\n'
        '@llvm.used = appending global [1 x ptr] [ptr @tilewright_module], section "llvm.metadata"\n'
    )


FORK_JOIN = r"""
; Runs a parallel loop on threads of its own: the calling one takes the first share, and waits for the others.
%task = type { ptr, ptr, i64, i64, i32 }
@tilewright_within = internal thread_local global i32 0
@tilewright_variable = private constant [23 x i8] c"TILEWRIGHT_NUM_THREADS\00"

declare ptr @getenv(ptr)
declare i32 @atoi(ptr)
declare i64 @sysconf(i32)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)

define internal ptr @tilewright_run_share(ptr %task) {
  store i32 1, ptr @tilewright_within
  %at.closure = getelementptr %task, ptr %task, i32 0, i32 1
  %at.begin = getelementptr %task, ptr %task, i32 0, i32 2
  %at.end = getelementptr %task, ptr %task, i32 0, i32 3
  %at.status = getelementptr %task, ptr %task, i32 0, i32 4
  %body = load ptr, ptr %task
  %closure = load ptr, ptr %at.closure
  %begin = load i64, ptr %at.begin
  %end = load i64, ptr %at.end
  %status = call i32 %body(ptr %closure, i64 %begin, i64 %end)
  store i32 %status, ptr %at.status
  store i32 0, ptr @tilewright_within
  ret ptr null
}

define weak i32 @tilewright_parallel_for(ptr %body, ptr %closure, i64 %extent) {
entry:
  %tasks = alloca %task, i64 64, align 8
  %threads = alloca i64, i64 64, align 8
  %none = icmp sle i64 %extent, 0
  br i1 %none, label %nothing, label %some
nothing:
  ret i32 0
some:
  %within = load i32, ptr @tilewright_within
  %nested = icmp ne i32 %within, 0
  br i1 %nested, label %serial, label %count
serial:
  %direct = call i32 %body(ptr %closure, i64 0, i64 %extent)
  ret i32 %direct
count:
  %text = call ptr @getenv(ptr @tilewright_variable)
  %unset = icmp eq ptr %text, null
  br i1 %unset, label %processors, label %asked
asked:
  %number = call i32 @atoi(ptr %text)
  %wide = sext i32 %number to i64
  br label %counted
processors:
  %online = call i64 @sysconf(i32 84)
  br label %counted
counted:
  %wish = phi i64 [ %wide, %asked ], [ %online, %processors ]
  %positive = call i64 @llvm.smax.i64(i64 %wish, i64 1)
  %few = call i64 @llvm.smin.i64(i64 %positive, i64 64)
  %shares = call i64 @llvm.smin.i64(i64 %few, i64 %extent)
  br label %start
start:
  %t = phi i64 [ 0, %counted ], [ %t.next, %started ]
  %t.next = add i64 %t, 1
  %task = getelementptr %task, ptr %tasks, i64 %t
  %at.closure = getelementptr %task, ptr %task, i32 0, i32 1
  %at.begin = getelementptr %task, ptr %task, i32 0, i32 2
  %at.end = getelementptr %task, ptr %task, i32 0, i32 3
  %at.status = getelementptr %task, ptr %task, i32 0, i32 4
  %thread = getelementptr i64, ptr %threads, i64 %t
  %product = mul i64 %extent, %t
  %begin = udiv i64 %product, %shares
  %product.next = mul i64 %extent, %t.next
  %end = udiv i64 %product.next, %shares
  store ptr %body, ptr %task
  store ptr %closure, ptr %at.closure
  store i64 %begin, ptr %at.begin
  store i64 %end, ptr %at.end
  store i32 0, ptr %at.status
  store i64 0, ptr %thread
  %first = icmp eq i64 %t, 0
  br i1 %first, label %started, label %create
create:
  %refused = call i32 @pthread_create(ptr %thread, ptr null, ptr @tilewright_run_share, ptr %task)
  %lost = icmp ne i32 %refused, 0
  br i1 %lost, label %alone, label %started
alone:
  %ran = call ptr @tilewright_run_share(ptr %task)
  store i64 0, ptr %thread
  br label %started
started:
  %more = icmp ult i64 %t.next, %shares
  br i1 %more, label %start, label %own
own:
  %mine = call ptr @tilewright_run_share(ptr %tasks)
  br label %wait
wait:
  %w = phi i64 [ 0, %own ], [ %w.next, %joined ]
  %failed = phi i32 [ 0, %own ], [ %failed.next, %joined ]
  %w.next = add i64 %w, 1
  %at.thread = getelementptr i64, ptr %threads, i64 %w
  %handle = load i64, ptr %at.thread
  %here = icmp eq i64 %handle, 0
  br i1 %here, label %joined, label %join
join:
  %ended = call i32 @pthread_join(i64 %handle, ptr null)
  br label %joined
joined:
  %waited = getelementptr %task, ptr %tasks, i64 %w, i32 4
  %status = load i32, ptr %waited
  %failed.next = or i32 %failed, %status
  %left = icmp ult i64 %w.next, %shares
  br i1 %left, label %wait, label %finished
finished:
  ret i32 %failed.next
}

declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
"""
