"""Average pooling by PyTorch with correct gradients: PyTorch's own are wrong for two kinds of layers.

- On CUDA, the gradient of a padded layer is wrong in channels-last memory (2.11, for one). Such images are copied into
  row-major memory, and the results back.
- Code compiled by Inductor divides by the whole kernel if `ceil_mode` lets a window reach beyond the padding (2.13, for
  one). The gradient of such a window is scaled first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ...arguments.signature import channels_last_order
from ..native import average
from ..tensors import channels_last, in_order


class AveragePooling(NamedTuple):
    """The options of `torch.nn.functional.avg_pool2d`, in its order and in full."""

    kernel: list[int]
    stride: list[int]
    padding: list[int]
    ceil_mode: bool
    count_include_pad: bool
    divisor: int | None

    def average(self, images: Any) -> Any:
        """Compute it, by operators that PyTorch differentiates."""
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
        """Return a tensor that PyTorch treats as row-major if its CUDA kernel for channels-last memory is wrong. A
        tensor with extents of one can be both, and `contiguous` would return it as it is.
        """
        if a.device.type == "cpu" or a.dim() < 4 or not any(self.padding):
            return a
        return a.reshape(-1).view(a.shape)

    def _overhangs(self, shape: Any) -> bool:
        """Whether a window that counts the padding reaches beyond it."""
        if not self.ceil_mode or not self.count_include_pad or self.divisor:
            return False
        sizes = zip(shape[-2:], self.kernel, self.stride, self.padding, strict=True)
        return any((size + 2 * p - k) % s for size, k, s, p in sizes)

    def _in_full(self, shape: Any) -> tuple[Any, ...]:
        """Return the options, with a divisor if windows differ: `_scale` corrects it."""
        area = self.kernel[0] * self.kernel[1]
        return self._replace(divisor=area) if self._overhangs(shape) else self

    def _scale(self, images: Any, results: Any) -> Any:
        """Return the ratio of the kernel's elements to the elements that each window counts; None if it is 1 for all
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
    """The results in channels-last memory if the images are."""
    return in_order(made, channels_last_order(made.dim(), 2)) if channels_last(images, 2) else made
