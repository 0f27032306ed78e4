"""Steps of general schedules, for grids of threads and for processors.

`auto_schedule` chooses among them. `generic`, `cuda` and `x86` hand out its schedules under the legacy names.
"""
