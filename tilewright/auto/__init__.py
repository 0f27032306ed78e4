"""Automatic schedules: rules on the dataflow graph choose the structure, hardware limits the sizes, a cost model ranks.

`auto_schedule` in `schedule.py` takes a declaration and builds its schedule in five steps:

1. `inline.py` inlines cheap stages. `dataflow.py` describes the remaining stages: reads, work, reuse.
2. `kernels.py` fuses stages into kernels if they consist of the same rows.
3. `rules.py` lists the ways to compute each kernel, the best one first. A way (`ways.py`) has knobs, a default
   configuration, a function that applies a configuration, and optionally a model of its time. The kinds of ways:

   - convolutions and their gradients, by the packaged strategies: `convolutions.py`;
   - products: `products.py` recognises them, `gpu_products.py` tiles them, and `gpu_copies.py` copies their factors
     first;
   - on GPUs, sums of columns (`gpu_columns.py`), windows (`gpu_windows.py`), elements (`gpu_elements.py`), rows
     (`gpu_rows.py`) and scans (`gpu_scans.py`);
   - on processors, elements (`cpu_elements.py`) and rows (`cpu_rows.py`).

4. `program.py` applies one way per kernel to an ordinary schedule, and checks that the hardware can run it.
5. With `trials`, `search.py` measures configurations of the ways and returns the fastest. Records of earlier searches,
   in a log or in the package, need no measurement.
"""

from .schedule import auto_schedule as auto_schedule
