"""The API reference: a page for each module that users import, from the names that `tests/api/names.txt` holds."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.api import names

_FENCE = "`" * 8
_SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.M)
_LISTS = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Other Parameters")
_ROLE = re.compile(r"`tilewright((?:\.\w+)+)`")


def write(folder: Path, front: str) -> str:
    """Write the pages; returns the front page with links to them, and the navigation."""
    from sphinx.ext.autodoc.mock import mock

    folder.mkdir(parents=True)
    known: dict[int, str] = {}
    written = []
    for path in ["te", "", *(each for each in names.MODULES.split() if each != "te")]:  # an entry is on the first page
        module = f"{names.PACKAGE}.{path}".rstrip(".")
        absent = ["torch"] if path == "nn" and not find_spec("torch") else []
        with mock(absent):
            if absent:  # a class, of which `apply` is inherited
                import_module("torch.autograd").Function = type("Function", (type("Base", (), {"apply": None}),), {})
            text = "\n".join(_page(module, known))
        (folder / f"{module}.md").write_text(text + "\n", encoding="utf-8")
        written.append(module)
    (folder / "command_line.md").write_text("\n".join(_commands()), encoding="utf-8")
    entries = ["api/command_line", *(f"{_title(module)} <api/{module}>" for module in sorted(written))]
    navigation = ["", "```{toctree}", ":hidden:", "", *entries, "```", ""]
    return linked(front, set(known.values())) + "\n".join(navigation)


def _title(module: str) -> str:
    """Return the name of a module for the navigation, without the package; a line may end behind each dot."""
    return module.removeprefix(f"{names.PACKAGE}.").replace(".", ".\u200b")


def _commands() -> Iterator[str]:
    """Yield the lines of the page on the command line: each command with its arguments and options."""
    import typer

    from tilewright.cli.app import app

    yield "# Command line\n"
    commands: list[tuple[str, Any]] = [(names.PACKAGE, typer.main.get_command(app))]
    while commands:
        name, command = commands.pop(0)
        yield f"## {name}\n\n{_prose(inspect.cleandoc(command.help or ''))}"
        for option in command.params:
            if option.name == "help" or getattr(option, "hidden", False):
                continue
            words = ", ".join(f"`{word}`" for word in [*option.opts, *option.secondary_opts])
            default = (
                "" if option.default in (None, "", (), False) or callable(option.default) else f" (`{option.default}`)"
            )
            yield f"- {words}{default}: {_escaped(' '.join((getattr(option, 'help', None) or '').split()))}"
        yield ""
        below = sorted(getattr(command, "commands", {}).items())
        commands = [*((f"{name} {part}", each) for part, each in below), *commands]


def linked(text: str, documented: set[str]) -> str:
    """Return a page with links from the names of modules and functions in it to the reference.

    Raises
    ------
    ValueError
        If a name has no entry.
    """
    modules = {f".{path}" for path in names.MODULES.split()}
    text = text.replace("`tilewright --help`", "[`tilewright --help`](api/command_line.md)")

    def link(match: re.Match[str]) -> str:
        shown = f"`tilewright{match[1]}`"
        if match[1] in modules:
            return f"[{shown}](api/tilewright{match[1]}.md)"
        if f"tilewright{match[1]}" not in documented:
            raise ValueError(f"the API reference has no entry for {shown}")
        return f"{{py:obj}}{shown}"

    return _ROLE.sub(link, text)


def _page(path: str, known: dict[int, str]) -> Iterator[str]:
    """Yield the lines of a module's page."""
    module = import_module(path)
    yield f"# {path}\n"
    yield f"{_FENCE}{{py:currentmodule}} {path}\n{_FENCE}\n"
    yield _body(module)
    parts: dict[str, list[str]] = {"Functions": [], "Classes": [], "Values": [], "Further names": []}
    for name, value in names.members(path):
        if isinstance(value, ModuleType):
            parts["Further names"].append(f"- `{name}`: the module `{value.__name__}`")
        elif id(value) in known:
            parts["Further names"].append(f"- `{name}`: {{py:obj}}`{known[id(value)]}`")
        elif inspect.isclass(value) or callable(value):
            known[id(value)] = f"{path}.{name}"
            parts["Classes" if inspect.isclass(value) else "Functions"] += _described(name, value)
        else:
            parts["Values"].append(_directive("data", name, f"A value of type `{type(value).__name__}`."))
    for title, entries in parts.items():
        if entries:
            yield "\n".join([f"## {title}\n", *entries, ""])


def _described(name: str, value: Any) -> Iterator[str]:
    """Yield the entry of a function or a class, then the entries of a class's public methods."""
    if not inspect.isclass(value):
        yield _directive("function", name + _signature(value), _body(value))
        return
    yield _directive("class", name + _signature(value), _body(value))
    for each in sorted(names.attributes(value)):
        held = inspect.getattr_static(value, each)
        if names.is_method(held):
            method = getattr(value, each)
            yield _directive("method", f"{name}.{each}{_signature(method, bound=True)}", _body(method))
        elif isinstance(held, property):
            yield _directive("property", f"{name}.{each}", _body(held))
        else:
            yield _directive("attribute", f"{name}.{each}", "")


def _directive(kind: str, signature: str, body: str) -> str:
    return f"{_FENCE}{{py:{kind}}} {signature}\n\n{body}\n{_FENCE}\n"


def _signature(value: Any, bound: bool = False) -> str:
    """Return the parameters with their types and defaults, and the type of the result."""
    from sphinx.util.inspect import stringify_signature

    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    parameters = [p.replace(default=names.shown_default(p.default)) for p in found.parameters.values()]
    if bound and parameters and parameters[0].name == "self":
        parameters = parameters[1:]
    return stringify_signature(found.replace(parameters=parameters), unqualified_typehints=True)


def _body(value: Any) -> str:
    """Return a docstring as Markdown."""
    text = inspect.getdoc(value) or ""
    head, *sections = _SECTION.split(text)
    parts = [_prose(head)]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        parts += [f"**{title}**\n", _entries(body) if title in _LISTS else _prose(body)]
    return "\n".join(parts).strip()


def _entries(body: str) -> str:
    """Return a list of parameters, results or errors as a Markdown list."""
    lines = []
    for line in body.strip("\n").splitlines():
        if line and not line.startswith(" "):
            name, colon, kind = line.partition(" : ")
            shown = f"`{name}`" if colon or " " not in name.replace(", ", "") else _escaped(name)  # a result's sentence
            lines.append(f"- {shown}{': ' + _escaped(kind) if colon else ''}  ")
        else:
            lines.append(f"  {_escaped(line.strip())}" if line.strip() else "")
    return "\n".join(lines) + "\n"


def _prose(text: str) -> str:
    """Return paragraphs as they are, and indented blocks and sessions as code."""
    lines: list[str] = []
    block: list[str] = []

    def end_block() -> None:
        if block:
            shown = inspect.cleandoc("\n" + "\n".join(block))
            language = "pycon" if shown.startswith(">>>") else "text"
            lines.extend(["", f"```{language}", *shown.splitlines(), "```", ""])
            block.clear()

    in_session = False
    for line in text.splitlines():
        in_session = line.startswith(">>>") or (in_session and bool(line.strip()))
        continues = block and not line.strip() and not in_session
        if in_session or (line.startswith("    ") and (block or not lines or not lines[-1].strip())) or continues:
            block.append(line)
        else:
            end_block()
            lines.append(_escaped(line))
    end_block()
    return "\n".join(lines) + "\n"


def _escaped(line: str) -> str:
    """Return a line of a docstring whose signs mean themselves outside of code."""
    parts = re.split(r"(``[^`]*``|`[^`]*`)", line)
    return "".join(p if p.startswith("`") else re.sub(r"([*<\[\]{}#|$])", r"\\\1", p) for p in parts)
