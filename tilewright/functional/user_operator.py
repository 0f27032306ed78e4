"""The public function that registers a user's program as an operator of PyTorch. It imports PyTorch when it is
called."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from keyword import iskeyword
from typing import Any

from ..core.errors import UserError


def torch_operator(
    name: str, inputs: Any, args: Sequence[Any] | None = None, *, gradient: bool = False, target: Any = None
) -> Any:
    """Register a program with PyTorch as an operator, with shape inference, and with gradients on request.

    Parameters
    ----------
    name : str
        The name of the operator, such as "my::scaled".
    inputs : schedule, tensors or template
        A schedule, or tensors, which `auto_schedule` schedules. Or a function, such as a template, that returns a
        schedule and its arguments. The function is called once per kind of device, with that target as the current one.
    args : list, optional
        The arguments of the built function: tensors, and sizes (`te.var`) that are no extents of an input. For a
        template: the template's arguments. The default is placeholders missing from `inputs`, in the order in which the
        program reads them, then the tensors of `inputs`.
    gradient : bool
        Whether `te.gradient` differentiates the operator; `auto_schedule` schedules the gradients. Forward gradients
        and the transforms of `torch.func` cannot differentiate registered operators, and raise an error.
    target : Target or str, optional
        The target; by default that of the tensors' device, "cuda" or "llvm".

    Returns
    -------
    torch._ops.OpOverloadPacket
        The operator, such as `torch.ops.my.scaled`. It takes the inputs, then the sizes. It returns the computed
        tensor, or a tuple of tensors.

    Raises
    ------
    UserError
        If PyTorch is not installed, if the name is taken, or if the program cannot be differentiated.

    Examples
    --------
    >>> A = te.placeholder((te.var("n"),), name="A")
    >>> B = te.compute(A.shape, lambda i: A[i] * te.sigmoid(A[i]), name="B")
    >>> silu = tilewright.torch_operator("my::silu", B, gradient=True)
    """
    space, _, own = name.partition("::") if isinstance(name, str) else ("", "", "")
    if not all(part.isidentifier() and not iskeyword(part) for part in (space, own)):
        raise UserError(
            f"{name!r} is not the name of an operator",
            primitive="torch_operator",
            fix='give a namespace and a name: "my::scaled"',
        )
    if find_spec("torch") is None:
        raise UserError("PyTorch is not installed", primitive="torch_operator", fix="pip install torch")
    from .pytorch.operators.user_programs import register_program

    return register_program(name, inputs, args, gradient, target)
