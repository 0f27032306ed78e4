"""Automatic schedules: structure by rules on the dataflow graph, sizes from the hardware, order by the cost model.

`schedule.py` has `auto_schedule`, which takes a declaration. The schedule comes about in five steps:

1. `inline.py` inlines cheap stages. `dataflow.py` describes the stages that are left: reads, work, reuse.
2. `kernels.py` joins stages into kernels: the ones that fall into the same rows.
3. `rules.py` lists the ways to compute each kernel, the best one first. A way (`ways.py`) has knobs, a default
   configuration, the steps of any configuration, and perhaps a model of its time. The kinds of ways:

   - convolutions and their gradients, by the packaged strategies: `convolutions.py`;
   - products: `products.py` recognises them, `gpu_products.py` tiles them, `gpu_copies.py` copies their factors before;
   - on GPUs, sums of columns (`gpu_columns.py`), windows (`gpu_windows.py`), elements (`gpu_elements.py`), rows
     (`gpu_rows.py`) and scans (`gpu_scans.py`);
   - on processors, elements (`cpu_elements.py`) and rows (`cpu_rows.py`).

4. `program.py` applies one way for each kernel, in an ordinary schedule. It checks that the hardware can run it.
5. If there are trials, `search.py` measures configurations of the ways, and takes the fastest one. The records of
   earlier searches, in a log or in the package, need no measurement.
"""

from .schedule import auto_schedule as auto_schedule
