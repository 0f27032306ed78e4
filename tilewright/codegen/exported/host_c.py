"""Entry points of programs for the CPU, as C."""

from __future__ import annotations

from collections.abc import Sequence

from ...loops.nodes import Allocate, Buffer
from ..kernel import Kernel, root
from .header import prototype
from .launcher import EntryWriter
from .signature import DONE, OUT_OF_MEMORY, WRONG_SIZE, CSignature, c_type


class HostEntry(EntryWriter):
    """Writes one entry point, which calls the functions that hold its loops."""

    def __init__(self, signature: CSignature, kernels: Sequence[Kernel]) -> None:
        super().__init__(signature, kernels, "c", {})

    def text(self) -> str:
        self.lines = [f"{prototype(self.signature, self.kind)}", "{"]
        for condition in self.signature.requires:
            self._line(f"if (!({self._expr(condition)})) return {WRONG_SIZE};")
        self._line(f"int32_t status = {DONE};")
        self.visit(self.signature.function.body)
        self._line("return status;")
        return "\n".join([*self.lines, "}"])

    def allocate(self, s: Allocate) -> None:
        size = " * ".join([*(self._expr(extent) for extent in s.buffer.shape), str(s.buffer.dtype.bytes)])
        name = self._fresh(s.buffer)
        self._line(f"void *{name} = malloc((size_t)({size}) + 1);")
        self._line(f"if (!{name}) status = {OUT_OF_MEMORY};")
        self.visit(s.body)
        self._line(f"free({name});")

    def launch(self, kernel: Kernel) -> None:
        values = []
        for p in kernel.params:
            if isinstance(p, Buffer):
                values.append(f"({c_type(p.dtype)} *){self.names[root(p)]}")
            else:
                values.append(self.names[p])
        self._line(f"if (!status) status = {kernel.name}({', '.join(values)});")
