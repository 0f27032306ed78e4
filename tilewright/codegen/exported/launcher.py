"""Entry points of programs for GPUs, as C: the host's part of each function, with the kernels as data beside it."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.errors import UserError
from ...core.text import identifier, remark
from ...expr import nodes as n
from ...loops.nodes import Allocate, Buffer, Evaluate, For, If, Let, Stmt
from ..abi import CompiledProgram
from ..host_walk import HostVisitor
from ..kernel import Kernel, root
from .device_calls import ARITHMETIC, CALLS, COMMON, TYPES
from .elf import SECTION
from .header import prototype
from .signature import DONE, WRONG_SIZE, CSignature, scalar_c_type

_INFIX: dict[type, str] = {
    n.Add: "+", n.Sub: "-", n.Mul: "*", n.EQ: "==", n.NE: "!=", n.LT: "<", n.LE: "<=",
    n.GT: ">", n.GE: ">=", n.And: "&&", n.Or: "||",
}  # fmt: skip
_CALLS: dict[type, str] = {
    n.Div: "tilewright_truncdiv",
    n.Mod: "tilewright_truncmod",
    n.FloorDiv: "tilewright_floordiv",
    n.FloorMod: "tilewright_floormod",
    n.Min: "tilewright_min",
    n.Max: "tilewright_max",
}
_BYTES_A_LINE = 24


def launcher(
    signatures: Sequence[CSignature],
    kernels: Sequence[Sequence[Kernel]],
    program: CompiledProgram,
    kind: str,
    archive: bytes | None,
) -> str:
    """The C source of the entry points: it loads the kernels at the first call, and launches them."""
    image = program.source.encode() if kind == "opencl" else program.binary or b""
    names = ", ".join(f'"{abi.name}"' for abi in program.kernels) or "0"
    dynamic = ", ".join(str(abi.dynamic_shared_bytes) for abi in program.kernels) or "0"
    parts = [f"/* Made by Tilewright for {remark(program.target)}. */", COMMON, ARITHMETIC]
    parts += [_bytes("tilewright_image", image + b"\0")]
    parts += [
        f"enum {{ KERNELS = {len(program.kernels)}, IMAGE_BYTES = {len(image)} }};",
        f"static const char *const tilewright_names[] = {{{names}}};",
        f"__attribute__((unused)) static const int tilewright_dynamic_bytes[] = {{{dynamic}}};",
        CALLS[kind],
    ]
    if archive is not None:
        parts.append(module_bytes(archive))
    number = {abi.name: i for i, abi in enumerate(program.kernels)}
    for signature, own in zip(signatures, kernels, strict=True):
        parts.append(EntryWriter(signature, own, kind, number).text())
    return "\n\n".join(parts) + "\n"


def module_bytes(archive: bytes) -> str:
    """The archive as a constant in the section that `load_module` searches."""
    return _bytes("tilewright_module", archive, f'__attribute__((section("{SECTION}"), used, aligned(8))) ')


def _bytes(name: str, content: bytes, how: str = "") -> str:
    lines = [f"{how}static const unsigned char {name}[] = {{"]
    for at in range(0, len(content), _BYTES_A_LINE):
        lines.append(f"  {','.join(map(str, content[at : at + _BYTES_A_LINE]))},")
    return "\n".join([*lines, "};"])


class EntryWriter(HostVisitor):
    """Writes one entry point."""

    def __init__(self, signature: CSignature, kernels: Sequence[Kernel], kind: str, number: dict[str, int]) -> None:
        super().__init__(kernels)
        self.signature = signature
        self.kind = kind
        self.number = number
        self.names: dict[Buffer | n.Var, str] = {p.value: p.name for p in signature.parameters}
        self.taken = set(self.names.values())
        self.lines: list[str] = []
        self.indent = 1

    def text(self) -> str:
        """The function."""
        queue = "queue" if self.kind == "opencl" else "stream"
        self.lines = [f"{prototype(self.signature, self.kind)}", "{"]
        for condition in self.signature.requires:
            self._line(f"if (!({self._expr(condition)})) return {WRONG_SIZE};")
        for p in self.signature.parameters:
            if p.align > 1:
                self._line(f"if ((uintptr_t){p.name} % {p.align}) return {WRONG_SIZE};")
        self._line(f"int32_t status = {DONE};")
        self._line(f"{TYPES[self.kind]} *device = tilewright_device({queue}, &status);")
        self._line("if (!device) return status;")
        self.visit(self.signature.function.body)
        self._line("return status;")
        return "\n".join([*self.lines, "}"])

    def _line(self, text: str) -> None:
        self.lines.append("  " * self.indent + text)

    def _fresh(self, thing: Buffer | n.Var) -> str:
        base, count = identifier(thing.name), 0
        name = f"{base}_"
        while name in self.taken:
            count += 1
            name = f"{base}_{count}"
        self.taken.add(name)
        self.names[thing] = name
        return name

    def loop(self, s: For) -> None:
        """Write a loop, which ends if a launch fails."""
        low, extent = self._expr(s.min), self._expr(s.extent)
        name = self._fresh(s.var)
        self._block(f"for (int64_t {name} = {low}; {name} < {low} + {extent} && !status; ++{name})", s.body)

    def branch(self, s: If) -> None:
        """Write a condition."""
        self._block(f"if ({self._expr(s.condition)})", s.then)
        if s.orelse is not None:
            self._block("else", s.orelse)

    def name(self, s: Let) -> None:
        """Write a constant."""
        value = self._expr(s.value)
        self._line(f"const int64_t {self._fresh(s.var)} = {value};")
        self.visit(s.body)

    def other(self, s: Stmt) -> None:
        """Raise an error for a statement that has an effect."""
        if not (isinstance(s, Evaluate) and isinstance(s.value, n.IntImm)):
            raise self._unknown(type(s).__name__)

    def _block(self, head: str, body: Stmt) -> None:
        self._line(f"{head} {{")
        self.indent += 1
        self.visit(body)
        self.indent -= 1
        self._line("}")

    def allocate(self, s: Allocate) -> None:
        """Allocate memory, and free it after the statements within."""
        size = " * ".join([*(self._expr(extent) for extent in s.buffer.shape), str(s.buffer.dtype.bytes)])
        name = self._fresh(s.buffer)
        self._line(f"void *{name} = tilewright_allocate(device, (size_t)({size}), &status);")
        self.visit(s.body)
        self._line(f"tilewright_free(device, {name});")

    def launch(self, kernel: Kernel) -> None:
        """Launch a kernel, unless a launch before it failed."""
        self._line("if (!status) {")
        self.indent += 1
        extents = ", ".join(self._expr(extent) for extent in (*kernel.grid, *kernel.block))
        self._line(f"const int64_t extents[6] = {{{extents}}};")
        for i, p in enumerate(kernel.params):
            if isinstance(p, Buffer):
                self._line(f"void *const p{i} = (void *){self.names[root(p)]};")
            else:
                kind = scalar_c_type(p.dtype)
                self._line(f"const {kind} p{i} = ({kind}){self.names[p]};")
        count = len(kernel.params)
        values = ", ".join(f"(void *)&p{i}" for i in range(count)) or "0"
        sizes = ", ".join(f"sizeof p{i}" for i in range(count)) or "0"
        self._line(f"void *const values[] = {{{values}}};")
        self._line(f"const size_t sizes[] = {{{sizes}}};")
        self._line(
            f"status = tilewright_launch(device, {self.number[kernel.name]}, extents, (void **)values, sizes, {count});"
        )
        self.indent -= 1
        self._line("}")

    def _expr(self, e: n.Expr) -> str:
        """An integer or a condition, computed in 64 bits."""
        if isinstance(e, n.Var):
            found = self.names.get(e)
            if found is None:
                raise self._unknown(f"variable {e.name}")
            return f"(int64_t){found}" if e.dtype.is_int else found
        if isinstance(e, n.IntImm):
            return f"INT64_C({e.value})" if not -(2**31) < e.value < 2**31 else f"({e.value})"
        if isinstance(e, n.Binary) and e.a.dtype.is_float:
            raise self._unknown(f"expression {e}")
        if isinstance(e, n.Cast) and (e.dtype.is_int or e.dtype.is_bool) and not e.value.dtype.is_float:
            return self._expr(e.value)
        args = [self._expr(child) for child in e.children()]
        if type(e) in _INFIX:
            return f"({args[0]} {_INFIX[type(e)]} {args[1]})"
        if type(e) in _CALLS:
            return f"{_CALLS[type(e)]}({args[0]}, {args[1]})"
        if isinstance(e, n.Not):
            return f"(!{args[0]})"
        if isinstance(e, (n.Select, n.IfThenElse)):
            return f"({args[0]} ? {args[1]} : {args[2]})"
        if isinstance(e, n.Call) and e.name == "likely":
            return args[0]
        raise self._unknown(f"expression {e}")

    def _unknown(self, what: str) -> UserError:
        return UserError(
            f"the host's part of {self.signature.function.name!r} has the {what}, which a launcher in C cannot contain",
            primitive="export_library",
            fix="save the module as an archive for Python: save('module.tw')",
        )
