"""Targets by the names of the legacy API's functions: kinds that Tilewright has, with the labels of a device."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.errors import UserError
from ...core.target import Target


def mali(model: str = "unknown", options: str | Sequence[str] | None = None) -> Target:
    """OpenCL on a Mali GPU."""
    return _labelled("mali", "opencl -device=mali", model, options)


def intel_graphics(model: str = "unknown", options: str | Sequence[str] | None = None) -> Target:
    """OpenCL on an integrated GPU by Intel."""
    return _labelled("intel_graphics", "opencl -device=intel_graphics", model, options)


def arm_cpu(model: str = "unknown", options: str | Sequence[str] | None = None) -> Target:
    """LLVM, for an ARM processor: `options` name it, as in "-mtriple=aarch64-linux-gnu -mattr=+neon"."""
    return _labelled("arm_cpu", "llvm -keys=arm_cpu,cpu -device=arm_cpu", model, options)


def _labelled(name: str, kind: str, model: str, options: str | Sequence[str] | None) -> Target:
    more = [options] if isinstance(options, str) else list(options or ())
    if not all(isinstance(text, str) for text in (model, *more)):
        raise UserError(f"model={model!r}, options={options!r}", primitive=name, fix='give texts: "-mattr=+neon"')
    return Target(" ".join([kind, f"-model={model}", *more]))
