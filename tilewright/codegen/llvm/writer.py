"""LLVM IR as text: one function's blocks, names and instructions, and the module around them."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.errors import InternalError
from ...core.text import LONGEST_NAME, identifier, remark
from .compile import Processor
from .types import LLVMValue, vector


class ModuleWriter:
    """The common part of a module's functions: declarations, helper functions, metadata."""

    def __init__(self, machine: Processor) -> None:
        self.machine = machine
        self.functions: list[str] = []
        self._declared: dict[str, str] = {}
        self._helpers: dict[str, str] = {}
        self._metadata: list[str] = []
        self._nontemporal: int | None = None
        self._symbols: set[str] = set()
        self._texts: dict[str, str] = {}
        self.imports: dict[str, None] = {}
        """C functions that the module calls and does not define."""

    def symbol(self, wish: str) -> str:
        """Return an unused function name."""
        base = identifier(wish, dots=True)
        name, count = base, 0
        while name in self._symbols:
            count += 1
            name = f"{base}.{count}"
        self._symbols.add(name)
        return name

    def declare(self, name: str, result: str, args: Sequence[str], attributes: str = "") -> str:
        """Declare an external function or intrinsic, once; returns its name."""
        self._declared.setdefault(name, f"declare {result} @{name}({', '.join(args)}) {attributes}".rstrip())
        return name

    def declaration(self, name: str) -> str:
        """Return the declaration of a function."""
        return self._declared[name]

    def text_constant(self, text: str) -> str:
        """The name of a constant that holds a text and the zero after it."""
        name = f"@.text.{len(self._texts)}"
        data = text.encode() + b"\0"
        shown = "".join(f"\\{byte:02X}" for byte in data)
        line = f'private unnamed_addr constant [{len(data)} x i8] c"{shown}"'
        return self._texts.setdefault(line, name)

    def has_helper(self, name: str) -> bool:
        """Whether a helper function of this name is written already."""
        return name in self._helpers

    def helper(self, name: str, text: str) -> None:
        """Add a helper function."""
        self._helpers[name] = text

    def loop_hint(self, *hints: str) -> str:
        """The metadata of a loop with those hints, each one `"name"` or `"name", value`."""
        own = len(self._metadata)
        nodes = [f"!{{!{hint}}}" for hint in hints]
        self._metadata.append(f"!{own} = distinct !{{!{own}, {', '.join(nodes)}}}")
        return f"!{own}"

    def nontemporal(self) -> str:
        """The metadata of non-temporal accesses."""
        if self._nontemporal is None:
            self._nontemporal = len(self._metadata)
            self._metadata.append(f"!{self._nontemporal} = !{{i32 1}}")
        return f"!nontemporal !{self._nontemporal}"

    def text(self, head: Sequence[str]) -> str:
        """The whole module."""
        bits = self.machine.vector_bits
        width = f' "prefer-vector-width"="{bits}"' if bits else ""
        attributes = f"attributes #0 = {{ nounwind{width} }}"
        texts = "\n".join(f"{name} = {line}" for line, name in self._texts.items())
        parts = ["\n".join(f"; {remark(line)}" for line in head), texts, *self.functions, *self._helpers.values()]
        parts += ["\n".join(self._declared.values()), attributes, "\n".join(self._metadata)]
        return "\n\n".join(part for part in parts if part) + "\n"


class FunctionWriter:
    """Writes the instructions of one function, block by block."""

    def __init__(self, module: ModuleWriter, params: Sequence[str] = ()) -> None:
        self.module = module
        self.lines: list[str] = []
        self.entry: list[str] = []
        """Instructions at the head of the first block: storage on the stack."""
        self.block = "entry"
        self.ended = False
        self._counts = dict.fromkeys(("entry", *params), 1)

    def name(self, wish: str) -> str:
        """A register or block name that this function does not have yet."""
        base = identifier(wish, dots=True)
        while count := self._counts.get(base, 0):
            self._counts[base] = count + 1
            suffix = f".{count}"
            base = f"{base[: LONGEST_NAME - len(suffix)]}{suffix}"
        self._counts[base] = 1
        return base

    def op(self, result: str, text: str, wish: str = "") -> LLVMValue:
        """An instruction with a result of type `result`."""
        name = self.name(wish or text.partition(" ")[0])
        self.do(f"%{name} = {text}")
        return LLVMValue(result, f"%{name}")

    def do(self, text: str) -> None:
        """An instruction without a result."""
        if self.ended:
            raise InternalError(f"an instruction after the end of block {self.block}: {text}")
        self.lines.append("  " + text)

    def note(self, text: str) -> None:
        """A comment."""
        self.lines.append(f"  ; {remark(text)}")

    def label(self, wish: str) -> str:
        """The name of a block to come."""
        return self.name(wish)

    def start(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label}:")
        self.block = label
        self.ended = False

    def branch(self, label: str) -> None:
        """Go to a block."""
        self.do(f"br label %{label}")
        self.ended = True

    def branch_if(self, condition: LLVMValue, then: str, otherwise: str, hint: str = "") -> None:
        """Go to one of two blocks."""
        self.do(f"br i1 {condition.text}, label %{then}, label %{otherwise}{hint}")
        self.ended = True

    def give(self, value: str) -> None:
        """Return."""
        self.do(f"ret {value}")
        self.ended = True

    def alloca(self, element: str, count: int, align: int, wish: str) -> LLVMValue:
        """Storage on the stack, for the whole of the function."""
        name = self.name(wish)
        size = f", i64 {count}" if count != 1 else ""
        self.entry.append(f"  %{name} = alloca {element}{size}, align {align}")
        return LLVMValue("ptr", f"%{name}")

    def binary(self, op: str, a: LLVMValue, b: LLVMValue, wish: str = "") -> LLVMValue:
        """`op type a, b`, of the operands' type."""
        return self.op(a.type, f"{op} {a.type} {a.text}, {b.text}", wish)

    def compare(self, op: str, a: LLVMValue, b: LLVMValue, lanes: int = 1) -> LLVMValue:
        """`icmp` or `fcmp` by a full name such as "icmp slt"."""
        return self.op(vector("i1", lanes), f"{op} {a.type} {a.text}, {b.text}", "cmp")

    def select(self, condition: LLVMValue, a: LLVMValue, b: LLVMValue) -> LLVMValue:
        """`a` if the condition holds, else `b`."""
        return self.op(a.type, f"select {condition}, {a}, {b}")

    def convert(self, op: str, value: LLVMValue, to: str, wish: str = "") -> LLVMValue:
        """A conversion such as `sext`; nothing if the type is the same."""
        return value if value.type == to else self.op(to, f"{op} {value} to {to}", wish)

    def call(
        self, name: str, result: str, args: Sequence[LLVMValue], attributes: str = "", flags: str = ""
    ) -> LLVMValue:
        """A call of a declared function or intrinsic."""
        self.module.declare(name, result, [arg.type for arg in args], attributes)
        text = f"call {flags + ' ' if flags else ''}{result} @{name}({', '.join(map(str, args))})"
        return self.op(result, text, name.removeprefix("llvm.").partition(".")[0])

    def splat(self, value: LLVMValue, lanes: int) -> LLVMValue:
        """A scalar on all lanes."""
        if lanes == 1:
            return value
        wide = vector(value.type, lanes)
        if not value.text.startswith("%"):
            return LLVMValue(wide, f"splat ({value})")
        one = self.op(wide, f"insertelement {wide} poison, {value}, i64 0", "lane")
        mask = f"<{lanes} x i32> zeroinitializer"
        return self.op(wide, f"shufflevector {one}, {wide} poison, {mask}", "splat")

    def text(self, head: str) -> str:
        """The function, after `define ... {`."""
        return "\n".join([head + " {", "entry:", *self.entry, *self.lines, "}"])
