"""Names of hardware that stand for a target: `Target("nvidia/geforce-rtx-3090")`."""

from __future__ import annotations

_CAPABILITIES: dict[int, str] = {
    70: "nvidia-v100 tesla-v100",
    75: """tesla-t4 geforce-rtx-2060 geforce-rtx-2070 geforce-rtx-2080 geforce-rtx-2080-ti nvidia-t4 quadro-rtx-4000
        quadro-rtx-5000 quadro-rtx-6000 quadro-rtx-8000 geforce-gtx-1650 geforce-gtx-1660""",
    80: "nvidia-a100 nvidia-a30 tesla-a100",
    86: """nvidia-a10 nvidia-a40 geforce-rtx-3050 geforce-rtx-3060 geforce-rtx-3070 geforce-rtx-3080
        geforce-rtx-3080-ti geforce-rtx-3090 geforce-rtx-3090-ti rtx-a4000 rtx-a5000 rtx-a6000""",
    89: "nvidia-l4 nvidia-l40 nvidia-l40s geforce-rtx-4060 geforce-rtx-4070 geforce-rtx-4080 geforce-rtx-4090 rtx-6000",
    90: "nvidia-h100 nvidia-h200",
}

TAGS: dict[str, str] = {
    f"nvidia/{board}": f"cuda -arch=sm_{capability}"
    for capability, boards in _CAPABILITIES.items()
    for board in boards.split()
}
"""The target of each name."""
