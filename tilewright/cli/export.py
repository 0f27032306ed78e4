"""`tilewright export`: the kernel of a layer as a library for C, with its header."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..core.errors import UserError
from ..core.target import Target
from ..core.text import identifier, kind_of, one_line
from ..runtime.compile import target_on
from ..runtime.device import cpu, cuda
from .run import names_of, reported

_DTYPES = ("float32", "float16", "bfloat16", "float64")


@dataclass(frozen=True)
class ExportOptions:
    """The command's options."""

    layer: str
    shape: str
    output: Path
    dtype: str | None = None
    channels_last: bool = False
    target: str | None = None


def export(options: ExportOptions) -> int:
    """Write the kernel of a layer, and its header beside it; print the choice and the files."""
    if find_spec("torch") is None:
        raise UserError("`tilewright export` needs PyTorch, which is not installed", fix="pip install torch", where="")
    import torch

    from ..functional import export as functional
    from ..functional.arguments.activations import custom
    from ..functional.planning.compiler import default_selection
    from ..nn import layers

    module, path = _layer(options.layer, torch, layers)
    dtype = options.dtype or str(next(module.parameters(), torch.empty(0)).dtype).removeprefix("torch.")
    if dtype not in _DTYPES:
        raise UserError(f"--dtype {dtype} is unknown", fix=f"give one of {', '.join(_DTYPES)}", where="")
    with torch.no_grad():
        x = torch.empty(_sizes(options.shape), dtype=getattr(torch, dtype))
        if options.channels_last:
            x = x.movedim(1, -1).contiguous().movedim(-1, 1)
        activation = layers.activation_of(module)
        problem = layers.problem_of(module.cpu(), x, dtype)
    function, text = custom("tilewright export", activation, dtype)
    problem = problem._replace(activation=text)
    if options.target is None:
        on = cuda() if cuda().exist else cpu()
        target = target_on(on)
        from ..functional.pytorch.tensors import RIVAL

        found = functional.selection_on(problem, on, RIVAL, function)
    else:
        target = Target(options.target)
        found = default_selection(problem, target)
    built = functional.module_of(problem, found, target, identifier(path), function)
    header = options.output.with_suffix(".h")
    for each in dict.fromkeys((options.output, header)):
        built.save(each)
    rank = 1 if "1d" in layers.operator_of(module) else 2
    print(f"problem: {one_line(problem.text(rank))}")
    print(f"kernel:  {found.template.name} for {target}; {one_line(found.why)}")
    print(f"written: {', '.join(map(str, dict.fromkeys((options.output, header))))}")
    return 0


def _layer(named: str, torch: Any, layers: Any) -> tuple[Any, str]:
    """Return the layer that `FILE:NAME` names, and its name."""
    file, colon, path = named.rpartition(":")
    if not colon or not Path(file).is_file() or not path:
        raise UserError(
            f"{named} names no layer of a file", fix="give FILE:NAME, such as model.py:model.features.0", where=""
        )
    value: Any = names_of(Path(file), "export")
    for at, part in enumerate(path.split(".")):
        try:
            value = value[part] if at == 0 else value[int(part)] if part.isdigit() else getattr(value, part)
        except (KeyError, IndexError, AttributeError, TypeError) as error:
            raise UserError(f"{file} has no {path}: there is no {part}", fix=_names(value), where="") from error
        if callable(value) and not isinstance(value, torch.nn.Module):
            value = reported(value)  # a function that returns the model
    if not isinstance(value, torch.nn.Module):
        raise UserError(f"{path} is {kind_of(value)}, not a layer", fix="name a layer: a torch.nn.Module", where="")
    if not layers.is_covered(value):
        inner = [f"{path}.{name}" for name, part in value.named_modules() if name and layers.is_covered(part)]
        shown = ", ".join(inner[:8]) + (", ..." if len(inner) > 8 else "")
        fix = f"give one of its layers: {shown}" if inner else "name a convolution or a pooling"
        raise UserError(f"{path} is a {type(value).__name__}, not a layer of ours", fix=fix, where="")
    what, fix = layers.omitted_part(value)
    if what:
        raise UserError(f"the kernel of {path} would not compute all of it: {what}", fix=fix, where="")
    return value, path


def _names(value: Any) -> str:
    """A fix: the names that a value has."""
    known = value if isinstance(value, dict) else dict(getattr(value, "named_children", dict)())
    return "give one of " + (", ".join(name for name in known if not name.startswith("__")) or "its layers")


def _sizes(text: str) -> Sequence[int]:
    """The sizes of the input; UserError for anything else."""
    if not re.fullmatch(r"\d+([x,]\d+)+", text):
        raise UserError(f"--shape {text} is no shape", fix="give the sizes of the input: 1x96x56x56", where="")
    return [int(size) for size in re.split("[x,]", text)]
