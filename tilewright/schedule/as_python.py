"""The steps of a schedule as the Python program that a person would write."""

from __future__ import annotations

import json
import keyword
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..core.atoms import Atom
from ..core.errors import UserError
from ..core.hardware import ThreadTag
from ..expr import nodes as n
from ..expr.nodes import Expr, Var
from ..expr.printer import ExprPrinter
from ..expr.traverse import variables
from ..tensor.axis import IterVar
from ..tensor.tensor import Operation, Tensor
from .schedule import Schedule, Stage
from .steps import Step, flattened
from .tensor_intrin import TensorIntrin

WIDTH = 100
_OF_SCHEDULE = ("cache_read", "cache_write", "rfactor")
_TAKEN = (*keyword.kwlist, "te", "tir", "schedule", "sum", "max", "min", "abs")
_SUFFIXES = ("outer", "inner", "fused", "c", "v")
_WORDS = {"b": "block", "t": "thread", "v": "vthread"}
_ANY = -1
"""Marks a tensor of an operation with several results: the caller chooses its place."""
_AXES = ("axis", "reduce_axis")


def as_python(begun: Schedule, steps: Sequence[Step], ids: Mapping[Operation, int], declaration: Any) -> str:
    """Return the text of the program that applies `steps` to `begun`; `ids` maps each operation to its stage's id."""
    if declaration is not None and not isinstance(declaration, Mapping):
        raise UserError(
            f"declaration is {declaration!r}, which is not a mapping",
            primitive="as_python",
            fix="give the variables of the program by their names: globals(), or {'A': A, 'C': C}",
        )
    return _Program(begun, steps, ids, declaration).text()


def _identifier(name: str) -> str:
    """A name as an identifier."""
    found = re.sub(r"\W+", "_", name).strip("_") or "x"
    return found if not found[0].isdigit() else f"x{found}"


def _base(axis: IterVar, role: str = "") -> str:
    """A short name for an axis: `k.outer.inner` is `koi`, and `bi` if the loop `i.outer` is bound to blocks."""
    parts = axis.name.split(".")
    roots = [part for part in parts if part not in _SUFFIXES]
    root = _identifier("".join(roots))
    if len(root) > 4 and len(roots) > 1:
        if role:
            return _WORDS[role]
        root = "fused"
    if role:
        return role + root
    suffix = "".join(part[0] for part in parts[1:] if part in _SUFFIXES and part != "fused")
    return f"{root}_{suffix}" if suffix and (root[-1].isdigit() or len(root) > 2) else root + suffix


class _Names:
    """Unique names of objects. Objects keep the names that the program declares for them."""

    def __init__(self, declaration: Mapping[str, Any]) -> None:
        self.declared = {id(value): name for name, value in reversed([*declaration.items()]) if name.isidentifier()}
        self.of: dict[int, str] = {}
        self.taken = {*_TAKEN, *declaration}

    def unique(self, wanted: str) -> str:
        """`wanted`, with a number if the name is taken."""
        found, number = wanted, 2
        while found in self.taken:
            found, number = f"{wanted}_{number}" if wanted[-1].isdigit() else f"{wanted}{number}", number + 1
        self.taken.add(found)
        return found

    def give(self, thing: Any, wanted: str) -> str:
        """The name of an object, which gets one on the first call."""
        if id(thing) not in self.of:
            self.of[id(thing)] = self.declared.get(id(thing)) or self.unique(wanted)
        return self.of[id(thing)]


class _PythonPrinter(ExprPrinter):
    """Prints expressions as Python that makes them again."""

    def __init__(self, program: _Program) -> None:
        super().__init__(program.name_of)

    def text(self, e: Expr) -> tuple[str, int]:
        if isinstance(e, (n.And, n.Or)):
            return f"tir.{'all' if isinstance(e, n.And) else 'any'}({self.write(e.a)}, {self.write(e.b)})", 20
        if isinstance(e, n.Not):
            return f"tir.Not({self.write(e.a)})", 20
        if isinstance(e, n.Cast):
            return f"tir.Cast({str(e.dtype)!r}, {self.write(e.value)})", 20
        if isinstance(e, (n.IntImm, n.FloatImm)) and str(e.dtype) != "int32":
            return f"tir.const({e.value!r}, {str(e.dtype)!r})", 20
        text, level = super().text(e)
        return re.sub(r"\bT\.", "tir.", text), level


class _Program:
    """The lines written so far.

    The variables that a program declares are known by their names. Without variables, the program is a function of the
    outputs and takes the other tensors from them.
    """

    def __init__(
        self,
        begun: Schedule,
        steps: Sequence[Step],
        ids: Mapping[Operation, int],
        declaration: Mapping[str, Any] | None,
    ) -> None:
        self.begun, self.steps, self.ids = begun, steps, ids
        self.is_function = declaration is None
        self.names = _Names(declaration or {})
        self.stages = dict(begun.stages)
        self.tensors: dict[int, tuple[str, int]] = {}
        self.known: set[int] = set()
        self.head: list[str] = []
        self.body: list[str] = []
        self.parameters: list[str] = []
        self.threads = Counter(id(thing) for step in steps for thing in flattened(step.given) if _is_thread(thing))
        expressions = [part for step in steps for part in flattened(step.given) if isinstance(part, Expr)]
        self.in_expressions = {id(var) for var in variables(*expressions)}
        self.roles = {id(step.given[1]): _role(step.given[2]) for step in steps if step.primitive == "bind"}
        roots = [axis for stage in begun.stages.values() for axis in stage.roots]
        self.own_axes = {id(axis) for axis in roots if id(axis) in self.names.declared}
        self._name_tensors()

    def _name_tensors(self) -> None:
        """Name a variable for each stage of the declaration: the program's, or a new one named after the operation."""
        for stage in self.begun.in_order():
            own = [t for t in stage.op.outputs if id(t) in self.names.declared]
            if own:
                self.known.add(stage.id)
            name = self.names.declared[id(own[0])] if own else self.names.unique(_identifier(stage.op.name))
            self.tensors[stage.id] = name, own[0].value_index if own else 0
        for i in self.begun.outputs if self.is_function else ():
            name, several = self.tensors[i][0], self.begun.stages[i].op.num_outputs > 1
            self.known.add(i)
            self.parameters.append(name)
            self.tensors[i] = name, _ANY if several else 0

    def text(self) -> str:
        """The whole program."""
        self.schedule = self.names.unique("s")
        outputs = [f"{self._known(i)}.op" for i in self.begun.outputs]
        body = self._body()
        made = outputs[0] if len(outputs) == 1 else f"[{', '.join(outputs)}]"
        lines = [*self.head, f"{self.schedule} = te.create_schedule({made})", *body]
        uses = [name for name in ("te", "tir") if name == "te" or any(f"{name}." in line for line in lines)]
        imports = f"from tilewright import {', '.join(uses)}"
        if not self.is_function:
            return "\n".join([imports, "", *lines, ""])
        start = f"def schedule({', '.join(self.parameters)}):"
        inside = textwrap.indent("\n".join([*lines, f"return {self.schedule}"]), "    ")
        return f"{imports}\n\n\n{start}\n{inside}\n"

    def _body(self) -> list[str]:
        """The lines of the steps, with blank lines around a stage's lines."""
        groups: list[list[str]] = []
        last, reason = None, ""
        for step in self.steps:
            if _is_without_effect(step):
                continue
            of_schedule = step.primitive in _OF_SCHEDULE
            owner = self.ids[_listed(step.made)[0].op] if of_schedule else step.given[0].id
            if owner != last:
                self.body = []
                groups.append(self.body)
            if step.reason and step.reason != reason:
                self.body += textwrap.wrap(step.reason, WIDTH, initial_indent="# ", subsequent_indent="# ")
            reason = step.reason
            self._write(step)
            last = owner
        lines: list[str] = []
        for before, group in zip([[], *groups], groups, strict=False):
            lines += ["", *group] if before and len(before) + len(group) > 2 else group
        return lines

    # Names

    def _known(self, stage: int) -> str:
        """The variable of a stage's tensor. If the program has none, the tensor is taken from a reader."""
        name = self.tensors[stage][0]
        if stage in self.known or stage not in self.begun.stages:
            return name
        op = self.begun.stages[stage].op
        reader = next((r for r in reversed(self.begun.in_order()) if any(t.op is op for t in r.op.input_tensors)), None)
        if reader is None:
            raise UserError(
                f"the declaration has no variable for the output {op.name!r}",
                primitive="as_python",
                fix=f"add it, as in {{{op.name!r}: {op.name}}}, or leave the declaration out",
            )
        source = f"{self._known(reader.id)}.op.input_tensors"
        tensors = reader.op.input_tensors
        ids = [self.begun.stage_of[t.op] for t in tensors]
        if len(set(ids)) == len(ids) and not self.known.intersection(ids):
            self.head.append(f"{_targets(self.tensors[i][0] for i in ids)} = {source}")
            for i, tensor in zip(ids, tensors, strict=True):
                self.tensors[i] = self.tensors[i][0], tensor.value_index
                self.known.add(i)
            return name
        place = next(k for k, t in enumerate(tensors) if t.op is op)
        self.head.append(f"{name} = {source}[{place}]")
        self.tensors[stage] = name, tensors[place].value_index
        self.known.add(stage)
        return name

    def _tensor(self, tensor: Tensor) -> str:
        stage = self.ids[tensor.op]
        name = self._known(stage)
        return name if self.tensors[stage][1] == tensor.value_index else f"{name}.op.output({tensor.value_index})"

    def _handle(self, stage: int) -> str:
        return f"{self.schedule}[{self._known(stage)}]"

    def _axis(self, axis: IterVar) -> str:
        """Return the name of an axis's variable; an axis without a variable gets a line that declares one."""
        if _is_thread(axis):
            return self._thread(axis)
        if id(axis) in self.names.of or id(axis) in self.own_axes:
            return self.names.give(axis, "")
        stage = next(stage for stage in reversed(self.stages.values()) if axis in stage.all_axes)
        for attribute in _AXES:
            axes = tuple(getattr(stage.op, attribute, ()))
            if axis in axes:
                unnamed = [a for a in axes if id(a) not in self.names.of]
                chosen = axes if len(unnamed) == len(axes) > 1 else (axis,)
                source = f"{self._handle(stage.id)}.op.{attribute}"
                names = ", ".join(self._made(a) for a in chosen)
                self.body.append(f"{names} = {source}" + ("" if chosen is axes else f"[{axes.index(axis)}]"))
                return self.names.of[id(axis)]
        place = stage.all_axes.index(axis)
        self.body.append(f"{self._made(axis)} = {self._handle(stage.id)}.all_iter_vars[{place}]")
        return self.names.of[id(axis)]

    def _made(self, axis: IterVar) -> str:
        return self.names.give(axis, _base(axis, self.roles.get(id(axis), "")))

    def _thread(self, thread: IterVar) -> str:
        """The text of a thread axis: a call, or a variable if several steps use the axis."""
        if id(thread) in self.names.of:
            return self.names.of[id(thread)]
        arguments = [_literal(thread.thread_tag)]
        if thread.dom is not None:
            arguments.insert(0, f"(0, {self._value(thread.dom.extent)})")
        if thread.name != thread.thread_tag:
            arguments.append(f"name={_literal(thread.name)}")
        made = f"te.thread_axis({', '.join(arguments)})"
        if self.threads[id(thread)] < 2 and id(thread.var) not in self.in_expressions:
            return made
        self.body.append(f"{self.names.give(thread, _identifier(thread.name))} = {made}")
        return self.names.of[id(thread)]

    def name_of(self, thing: Any) -> str:
        """The text of a variable or a tensor in an expression."""
        if isinstance(thing, Tensor):
            return self._tensor(thing)
        if id(thing) in self.names.of:
            return self.names.of[id(thing)]
        threads = (t for step in self.steps for t in flattened(step.given) if _is_thread(t))
        axes = (axis for stage in reversed(self.stages.values()) for axis in stage.all_axes)
        axis = next((axis for axis in (*threads, *axes) if axis.var is thing), None)
        return self._size(thing) if axis is None else self._axis(axis)

    def _size(self, size: Var) -> str:
        """A size that is known at the call."""
        if id(size) in self.names.declared:
            return self.names.give(size, "")
        for stage in self.begun.in_order():
            for place, extent in enumerate(stage.op.outputs[0].shape):
                if extent is size:
                    name = self.names.give(size, _identifier(size.name))
                    self._known(stage.id)
                    self.head.append(f"{name} = {self._tensor(stage.op.outputs[0])}.shape[{place}]")
                    return name
        raise UserError(
            f"the size {size.name!r} is no extent of a tensor",
            primitive="as_python",
            fix=f"give it in the declaration, as in {{{size.name!r}: {size.name}}}",
        )

    # Steps

    def _value(self, value: Any) -> str:
        """An argument as text."""
        if isinstance(value, Stage):
            return self._known(value.id)
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, IterVar):
            return self._axis(value)
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(map(self._value, value))}]"
        if isinstance(value, n.IntImm) and str(value.dtype) == "int32":
            return str(value.value)
        if isinstance(value, Expr):
            return _PythonPrinter(self)(value)
        if isinstance(value, Atom):
            return _literal(value.name)
        if isinstance(value, TensorIntrin):
            if id(value) not in self.names.of and id(value) not in self.names.declared:
                self.parameters.append(self.names.give(value, _identifier(value.name)))
            return self.names.give(value, "")
        return _literal(value.item() if hasattr(value, "item") else value)

    def _write(self, step: Step) -> None:
        """Append the line of a step, after lines that declare its axes."""
        self.stages.update({part.id: part for part in flattened(step.given) if isinstance(part, Stage)})
        arguments = list(self._arguments(step))
        owner = self.schedule if step.primitive in _OF_SCHEDULE else self._handle(step.given[0].id)
        made = _listed(step.made)
        if all(id(part) in self.names.of for part in made):
            target = ""
        elif isinstance(made[0], Tensor):
            names = [self.names.give(part, _identifier(part.op.name)) for part in made]
            for part, name in reversed([*zip(made, names, strict=True)]):
                self.tensors[self.ids[part.op]] = name, part.value_index
            target = f"{', '.join(names)} = "
        else:
            target = f"{_targets(map(self._made, made), listed=step.primitive != 'fuse')} = "
        self.body.append(_wrapped(f"{target}{owner}.{step.primitive}(", arguments))

    def _arguments(self, step: Step) -> Iterator[str]:
        name, (first, *rest) = step.primitive, step.given
        if name in _OF_SCHEDULE:
            several = name != "cache_read" and first.op.num_outputs > 1
            yield f"{self._value(first)}.op" if several else self._value(first)
        if name == "split":
            parent, factor, parts = rest
            yield self._value(parent)
            yield f"factor={self._value(factor)}" if parts is None else f"nparts={self._value(parts)}"
        elif name == "transform_layout":
            yield self._mapping(first, rest[0])
        elif name == "round_up":
            yield from (f"({self._value(axis)}, {self._value(multiple)})" for axis, multiple in rest[0])
        elif name in ("pragma", "rfactor"):
            without = None if name == "pragma" else 0
            yield from map(self._value, rest[:-1] if rest[-1] is without else rest)
        else:
            yield from map(self._value, rest)

    def _mapping(self, stage: Stage, indices: Iterable[Any]) -> str:
        """The function of `transform_layout`: its parameters are the stage's axes."""
        axes = [axis.var for axis in stage.op.axis]
        held = {id(var): self.names.of.pop(id(var), None) for var in axes}
        names = [self.names.give(var, _base(axis)) for var, axis in zip(axes, stage.op.axis, strict=True)]
        text = f"lambda {', '.join(names)}: {self._value(list(indices))}"
        for var in axes:
            self.names.taken.discard(self.names.of.pop(id(var)))
            if (before := held[id(var)]) is not None:
                self.names.of[id(var)] = before
        return text


def _literal(value: Any) -> str:
    """A constant, with the quotation marks of formatted code."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _is_thread(thing: Any) -> bool:
    return isinstance(thing, IterVar) and thing.thread is not None


def _role(thread: IterVar) -> str:
    """The letter for loops that are bound to a thread axis: b, v or t; none for blocks of clusters and others."""
    tag = "v" if thread.thread is ThreadTag.VTHREAD else thread.thread_tag[:1]
    return tag if tag in _WORDS else ""


def _is_without_effect(step: Step) -> bool:
    """Whether a step fuses one loop, or reorders loops that are in that order."""
    if step.primitive not in ("fuse", "reorder"):
        return False
    stage, *axes = step.given
    places = [stage.leaves.index(axis) for axis in axes]
    return len(places) == 1 if step.primitive == "fuse" else places == sorted(places)


def _listed(made: Any) -> list[Any]:
    """The results of a step."""
    found = made if isinstance(made, (list, tuple)) else [made]
    return [part for part in found if isinstance(part, (IterVar, Tensor))]


def _targets(names: Iterable[str], listed: bool = True) -> str:
    """Names on the left of an assignment from a list."""
    found = list(names)
    return f"({found[0]},)" if len(found) == 1 and listed else ", ".join(found)


def _wrapped(start: str, arguments: list[str]) -> str:
    """A call, on several lines if it is long."""
    line = f"{start}{', '.join(arguments)})"
    if len(line) <= WIDTH:
        return line
    inside = textwrap.fill(", ".join(arguments), WIDTH - 4, break_long_words=False, break_on_hyphens=False)
    return f"{start}\n{textwrap.indent(inside, '    ')}\n)"
