"""Ladders of schedules for one small convolution each, from naive to fast, and what it takes to climb them.

`conv1d` and `depthwise` hold the programs, `rung` what they share; `climb` builds, checks and times them;
`rivals` does the same for NumPy and PyTorch; `trial` judges answers, those of tuned templates too.
"""
