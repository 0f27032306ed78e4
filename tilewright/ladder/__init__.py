"""Ladders of schedules for one small convolution each, from naive to fast, and the tools to climb them.

`conv1d` and `depthwise` hold the programs, `rung` their common part; `climb` builds, checks and times them. `rivals`
does the same for NumPy and PyTorch; `trial` judges answers, including answers of tuned templates.
"""
