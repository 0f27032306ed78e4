"""The legacy compiler's printed programs, rewritten to where ours say the same in fewer words.

What is rewritten: sizes are the numbers that a test chooses; arrays are contiguous, so their strides are numbers as
well; marks for passes that follow (`extern_scope`, `double_buffer_write`) are left out; a thread index is defined
where it is launched; a reduction among threads is the value that it stores.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from math import prod
from typing import Any


def as_ours(text: str, sizes: Mapping[str, int]) -> str:
    """The only function of a printed module, rewritten."""
    (function,) = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
    changed = _Rewritten(sizes).visit(function)
    for arg in changed.args.args:
        arg.annotation = _Folded().visit(arg.annotation)
    return ast.unparse(ast.fix_missing_locations(_Folded().visit(changed)))


class _Folded(ast.NodeTransformer):
    """Arithmetic on constants is done."""

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        if isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant):
            return ast.Constant(eval(compile(ast.fix_missing_locations(ast.Expression(node)), "", "eval")))
        if isinstance(node.op, ast.Mult) and isinstance(node.right, ast.Constant) and node.right.value == 1:
            return node.left
        return node


class _Rewritten(ast.NodeTransformer):
    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self.shapes: dict[str, list[int]] = {}
        """Of each array that a handle stands for, by the name under which it is matched."""
        self.renamed: dict[str, str] = {}
        self.tags: dict[str, ast.expr] = {}
        self.parameters: dict[str, ast.arg] = {}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.decorator_list = []
        self.parameters = {arg.arg: arg for arg in node.args.args}
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id in self.sizes:
            return ast.Constant(self.sizes[node.id])
        return ast.Name(self.renamed.get(node.id, node.id), node.ctx)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        if isinstance(node.value, ast.Attribute) and node.value.attr == "strides":
            assert isinstance(node.value.value, ast.Name)
            assert isinstance(node.slice, ast.Constant)
            return ast.Constant(prod(self.shapes[node.value.value.id][node.slice.value + 1 :]))
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> Any:
        (target,) = node.targets
        text = ast.unparse(node.value)
        if "T.int32(" in text and "call" not in text:
            return None  # a size, or a variable that is a loop's
        assert not isinstance(target, ast.Tuple)
        if isinstance(node.value, ast.Call) and text.startswith("T.match_buffer("):
            return self._matched(ast.unparse(target), node.value)
        if isinstance(node.value, ast.Call) and text.startswith("T.env_thread("):
            self.tags[ast.unparse(target)] = node.value.args[0]
            return None
        if isinstance(node.value, ast.Call) and "buffer_type='auto'" in text:
            return self._view(ast.unparse(target), node.value)
        return self.generic_visit(node)

    def _matched(self, name: str, call: ast.Call) -> None:
        parameter = ast.unparse(call.args[0])
        shape = [eval(ast.unparse(extent), {}, dict(self.sizes)) for extent in call.args[1].elts]  # type: ignore[attr-defined]
        self.shapes[name] = shape
        self.renamed[name] = parameter
        extents = ", ".join(map(str, shape)) + "," * (len(shape) == 1)
        self.parameters[parameter].annotation = ast.parse(f"T.Buffer(({extents}), 'float32')", mode="eval").body

    def _view(self, name: str, call: ast.Call) -> Any:
        (data,) = (keyword.value for keyword in call.keywords if keyword.arg == "data")
        matched = ast.unparse(data).removesuffix(".data")
        shape, parameter = self.shapes[matched], self.renamed[matched]
        if len(shape) == 1:
            self.renamed[name] = parameter
            return None
        self.renamed[name] = f"{parameter}_1"
        return ast.parse(f"{parameter}_1 = T.Buffer(({prod(shape)},), data={parameter}.data)").body[0]

    def visit_Expr(self, node: ast.Expr) -> Any:
        if isinstance(node.value, ast.Call):
            name = ast.unparse(node.value.func)
            if name == "T.attr":
                return None
            if name == "T.launch_thread" and isinstance(node.value.args[0], ast.Name):
                launched = self._launched(node.value)
                return ast.Assign([ast.Name(ast.unparse(node.value.args[0]), ast.Store())], launched)
            if name == "T.tvm_thread_allreduce":
                _, value, _, into, *threads = node.value.args
                return self.generic_visit(ast.Assign([into], ast.Call(node.value.func, [value, *threads], [])))
        return self.generic_visit(node)

    def visit_With(self, node: ast.With) -> Any:
        (item,) = node.items
        call = item.context_expr
        assert isinstance(call, ast.Call)
        if ast.unparse(call.func) == "T.attr":
            return [changed for each in node.body for changed in _listed(self.visit(each))]
        if isinstance(call.args[0], ast.Name):
            item.optional_vars = ast.Name(call.args[0].id, ast.Store())
            item.context_expr = self._launched(call)
        return self.generic_visit(node)

    def _launched(self, call: ast.Call) -> ast.Call:
        return ast.Call(call.func, [self.tags[ast.unparse(call.args[0])], *call.args[1:]], [])


def _listed(made: Any) -> list[Any]:
    return made if isinstance(made, list) else [] if made is None else [made]
