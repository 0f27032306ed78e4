"""Templates that come with the package: convolutions of any size, on GPUs and CPUs, ready to tune."""

from typing import Any

from .backward import Backward as Backward
from .convolutions import Conv1dVector as Conv1dVector
from .convolutions import Conv2dLayer as Conv2dLayer
from .convolutions import Depthwise as Depthwise
from .epilogue import ACTIVATIONS as ACTIVATIONS
from .epilogue import Epilogue as Epilogue
from .matmul import BatchMatmul as BatchMatmul
from .matmul import Dense as Dense
from .pooling import Pooling as Pooling
from .table import STRATEGIES as STRATEGIES
from .template import ALL as ALL
from .template import PackagedTemplate as PackagedTemplate
from .template import default_strategy as default_strategy
from .template import named as named
from .template import strategies_by_name as strategies_by_name
from .template import strategy_named as strategy_named
from .transposed import Transposed as Transposed
from .weight_gradient import WeightGradient as WeightGradient
from .workload import Convolution as Convolution


def __getattr__(name: str) -> Any:
    """Return the templates by their names of version 0.2.0: `CONV1D` is `named("topi/conv1d")`."""
    if name in ("CONV1D", "CONV2D", "DEPTHWISE"):
        return named(f"topi/{name.lower()}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
