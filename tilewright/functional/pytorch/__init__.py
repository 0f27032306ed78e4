"""Calls on PyTorch's tensors."""

from ...core.views import hook_in

hook_in("time_both", f"{__name__}.timing", "time_both")
