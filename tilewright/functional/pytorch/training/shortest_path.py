"""The fastest path of eager calls with gradients or under autocast.

In each step, a layer of a model has tensors of the same shapes, orders and types. Its first step prepares the executors
of all passes; later steps only run them.
"""

from __future__ import annotations

from typing import Any

import torch

from ...arguments.call import OperatorCall
from ...arguments.signature import Signature
from ..casts import casts_of, conversion
from ..eager import records
from ..operators.gradients import RecordedCall, with_gradients
from ..operators.layer import CalledLayer, Run
from ..operators.registration import convolution_options
from ..state import autocast_type, autocasts
from ..tensors import prepared
from .backward_passes import KnownPasses


def shortest(call: OperatorCall, arrays: tuple[Any, ...], checked: Signature) -> Run:
    """Return the executor of such calls; `arrays` are the tensors after autocast's conversions."""
    with torch.no_grad():
        run = prepared(OperatorCall._make((call.name, *arrays, None, call.options)), checked, ordered=True)
    kind = autocast_type(call.x.device.type) if autocasts() else None
    of_x, *of_others, of_residual = [a is not b for a, b in zip(arrays, call.arrays, strict=False)]
    convert, differentiated = conversion(kind), records(arrays)
    cast = casts_of(call.weight, call.bias, kind) if any(of_others) else None
    layer = CalledLayer.of(convolution_options(call, arrays), *arrays[:2])
    biased, added = call.bias is not None, call.residual is not None
    known = RecordedCall(layer, biased, added, run, cast, KnownPasses().gradients)

    def short(x: Any, weight: Any, bias: Any, residual: Any, out: Any) -> Any:
        x, residual = convert(x) if of_x else x, convert(residual) if of_residual else residual
        if differentiated:
            if added:
                return with_gradients(x, weight, bias, residual, known)
            return with_gradients(x, weight, bias, known) if biased else with_gradients(x, weight, known)
        if cast is not None:
            weight, bias = cast(weight, bias)
        return run(x, weight, bias, residual)

    return short
