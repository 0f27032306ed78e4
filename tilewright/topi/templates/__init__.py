"""Templates that come with the package: convolutions of any size, on GPUs and CPUs, ready to tune."""

from ...core.errors import name_lines_of
from ...tune.task import register
from . import conv1d, conv2d, cpu, cpu_channels_last, depthwise, direct, elementwise, pooling, transposed
from .convolutions import Conv1d as Conv1d
from .convolutions import Conv2d as Conv2d
from .convolutions import Depthwise as Depthwise
from .epilogue import ACTIVATIONS as ACTIVATIONS
from .epilogue import Epilogue as Epilogue
from .pooling import Pooling as Pooling
from .pooling import PoolingTemplate as PoolingTemplate
from .template import ALL as ALL
from .template import PackagedTemplate as PackagedTemplate
from .transposed import Transposed as Transposed
from .workload import Convolution as Convolution

CONV2D_DIRECT: PackagedTemplate[Conv2d] = PackagedTemplate(
    "topi/conv2d.direct", Conv2d, direct.ON_GPU, cpu_channels_last.ON_CPU
)
DEPTHWISE_DIRECT: PackagedTemplate[Depthwise] = PackagedTemplate(
    "topi/depthwise.direct", Depthwise, direct.ON_GPU, cpu_channels_last.ON_CPU
)
CONV1D: PackagedTemplate[Conv1d] = PackagedTemplate("topi/conv1d", Conv1d, conv1d.ON_GPU, cpu.LINE)
CONV2D: PackagedTemplate[Conv2d] = PackagedTemplate("topi/conv2d", Conv2d, conv2d.ON_GPU, cpu.IMAGES, (CONV2D_DIRECT,))
DEPTHWISE: PackagedTemplate[Depthwise] = PackagedTemplate(
    "topi/depthwise", Depthwise, depthwise.ON_GPU, cpu.IMAGES, (DEPTHWISE_DIRECT,)
)

TRANSPOSED: PackagedTemplate[Transposed] = PackagedTemplate(
    "topi/conv_transpose", Transposed, elementwise.ON_GPU, elementwise.ON_CPU
)
POOLING = PoolingTemplate("topi/pool", Pooling, elementwise.ON_GPU, elementwise.ON_CPU)

ALL.extend((CONV1D, CONV2D, DEPTHWISE, CONV2D_DIRECT, DEPTHWISE_DIRECT, TRANSPOSED, POOLING))
for _template in ALL:
    register(_template)
_SCHEDULES = (conv1d, conv2d, cpu, cpu_channels_last, depthwise, direct, elementwise, pooling, transposed)
name_lines_of(*(str(module.__file__) for module in _SCHEDULES))
