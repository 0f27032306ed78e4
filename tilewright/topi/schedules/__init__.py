"""General schedules of operators, for grids of threads and for processors.

`generic`, `cuda` and `x86` hand them out under the legacy names.
"""
