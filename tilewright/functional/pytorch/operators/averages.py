"""Average pooling by PyTorch with correct gradients: PyTorch's own are wrong for two kinds of layers.

- On CUDA, the gradient of a padded layer is wrong in channels-last memory (in version 2.11, for example). Such images
  are copied to row-major memory, and the results back.
- Code compiled by Inductor divides by the whole kernel if `ceil_mode` lets a window reach beyond the padding (in
  version 2.13, for example). The gradient of such a window is scaled first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ...arguments.signature import channels_last_order
from ..native import average
from ..tensors import channels_last, in_order


class AveragePooling(NamedTuple):
    """All options of `torch.nn.functional.avg_pool2d`, in order."""

    kernel: list[int]
    stride: list[int]
    padding: list[int]
    ceil_mode: bool
    count_include_pad: bool
    divisor: int | None

    def average(self, images: Any) -> Any:
        """Compute the pooling by operators that PyTorch can differentiate."""
        made = average(self._in_rows(images), *self._in_full(images.shape))
        scale = self._scale(images, made)
        return _like(images, made if scale is None else made * scale)

    def gradient(self, grad: Any, images: Any) -> Any:
        """Return the gradient with respect to the images."""
        scale = self._scale(images, grad)
        grad = grad if scale is None else grad * scale
        made = torch.ops.aten.avg_pool2d_backward(
            self._in_rows(grad), self._in_rows(images), *self._in_full(images.shape)
        )
        return _like(images, made)

    def _in_rows(self, a: Any) -> Any:
        """Return a tensor that PyTorch treats as row-major, if PyTorch's CUDA kernel for channels-last memory is wrong.
        A tensor with extents of 1 may be both, and `contiguous` would return it unchanged.
        """
        if a.device.type == "cpu" or a.dim() < 4 or not any(self.padding):
            return a
        return a.reshape(-1).view(a.shape)

    def _overhangs(self, shape: Any) -> bool:
        """Return whether a window that counts the padding reaches beyond the padding."""
        if not self.ceil_mode or not self.count_include_pad or self.divisor:
            return False
        sizes = zip(shape[-2:], self.kernel, self.stride, self.padding, strict=True)
        return any((size + 2 * p - k) % s for size, k, s, p in sizes)

    def _in_full(self, shape: Any) -> tuple[Any, ...]:
        """Return the options, with a divisor if windows differ; `_scale` corrects the results."""
        area = self.kernel[0] * self.kernel[1]
        return self._replace(divisor=area) if self._overhangs(shape) else self

    def _scale(self, images: Any, results: Any) -> Any:
        """Return the ratio of the kernel's elements to the counted elements per window; None if it is 1 for all
        windows."""
        if not self._overhangs(images.shape):
            return None
        counts = []
        sizes = zip(images.shape[-2:], results.shape[-2:], self.kernel, self.stride, self.padding, strict=True)
        for size, places, k, s, p in sizes:
            first = torch.arange(places, device=images.device, dtype=torch.float64) * s
            counts.append((first + k).clamp(max=size + 2 * p) - first)
        return (self.kernel[0] * self.kernel[1] / (counts[0][:, None] * counts[1])).to(images.dtype)


def _like(images: Any, made: Any) -> Any:
    """Return the results in channels-last memory if the images are."""
    return in_order(made, channels_last_order(made.dim(), 2)) if channels_last(images, 2) else made
