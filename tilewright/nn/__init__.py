"""PyTorch modules that run Tilewright's convolutions. Parameters and state dict are the same as in PyTorch."""

from importlib.util import find_spec

from ..core.errors import UserError

if find_spec("torch") is None:
    raise UserError("tilewright.nn needs PyTorch, which is not installed", fix="pip install torch")

from ..functional.pytorch.operators import registration as registration  # defines `torch.ops.tilewright`
from .acceleration import accelerate
from .dynamo import dynamo_backend
from .modules import AvgPool2d, Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d, MaxPool2d
from .replacements import Acceleration

__all__ = [
    "Acceleration",
    "AvgPool2d",
    "Conv1d",
    "Conv2d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "MaxPool2d",
    "accelerate",
    "dynamo_backend",
]
