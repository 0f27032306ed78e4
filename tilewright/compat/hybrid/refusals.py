"""Python's syntax that is not in the hybrid language, with replacements."""

from __future__ import annotations

import ast

STATEMENTS: dict[type[ast.AST], tuple[str, str]] = {
    ast.With: ("with", "declare attributes by the loops: `for i in parallel(n)`, vectorize, unroll or bind"),
    ast.Break: ("break", "put the rest of the loop's body under an `if`"),
    ast.Continue: ("continue", "put the rest of the loop's body under an `if`"),
    ast.FunctionDef: ("a function inside of the script", "define it outside, with @te.hybrid.script as well"),
    ast.ClassDef: ("class", "define it outside"),
    ast.Try: ("try", "test the condition with `if`"),
    ast.Raise: ("raise", 'use `assert condition, "message"`'),
    ast.Import: ("import", "import outside of the script"),
    ast.ImportFrom: ("import", "import outside of the script"),
    ast.Global: ("global", "pass the script's results as an output_tensor"),
    ast.Nonlocal: ("nonlocal", "pass the script's results as an output_tensor"),
    ast.Delete: ("del", "leave it out: storage ends with its block"),
    ast.AnnAssign: ("an annotated assignment", "give the type by a conversion: x = float32(0)"),
    ast.Match: ("match", "use if and elif"),
}
EXPRESSIONS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lambda: ("lambda", "define a function outside of the script"),
    ast.ListComp: ("a list comprehension", "use `for i in const_range(n)`"),
    ast.SetComp: ("a set", "use a tuple"),
    ast.Set: ("a set", "use a tuple"),
    ast.Dict: ("a dict", "build it outside of the script"),
    ast.DictComp: ("a dict", "build it outside of the script"),
    ast.GeneratorExp: ("a generator", "use `for i in const_range(n)`"),
    ast.JoinedStr: ("an f-string", "write the text as it is"),
    ast.NamedExpr: (":=", "assign on a line of its own"),
    ast.Starred: ("*", "name the values one by one"),
    ast.Slice: ("a slice", "write a loop over the elements"),
    ast.Await: ("await", "leave it out"),
    ast.Yield: ("yield", "store to an output_tensor"),
    ast.YieldFrom: ("yield", "store to an output_tensor"),
}


def refused(node: ast.AST) -> tuple[str, str]:
    """Return the name of a part of the text, and its replacement."""
    known = {**STATEMENTS, **EXPRESSIONS}.get(type(node))
    return known or (f"`{ast.unparse(node)}`", "keep to loops, if, assignments, allocate, output_tensor and assert")
