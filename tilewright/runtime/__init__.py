"""Floor 9: devices, arrays, callable modules, and timing them."""

from .thread_pool import num_threads as num_threads
from .thread_pool import set_num_threads as set_num_threads
