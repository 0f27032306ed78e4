"""The schedule primitives by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..schedule import Schedule
from . import annotate, pipeline, place, storage
from .as_product import as_product
from .bind import bind, env_threads
from .cache_read import cache_read
from .cache_write import cache_write
from .fuse import fuse
from .prefetch import prefetch
from .redeclare import redeclare
from .reorder import reorder
from .rfactor import rfactor
from .rolling_buffer import rolling_buffer
from .round_up import round_up
from .split import split
from .tensorize import tensorize
from .tile import tile
from .transform_layout import transform_layout

PRIMITIVES: dict[str, Callable[..., tuple[Schedule, Any]]] = {
    f.__name__: f
    for f in (
        split,
        fuse,
        reorder,
        tile,
        bind,
        env_threads,
        cache_read,
        cache_write,
        rfactor,
        as_product,
        redeclare,
        annotate.unroll,
        annotate.vectorize,
        annotate.parallel,
        annotate.pragma,
        place.compute_at,
        place.compute_inline,
        place.compute_root,
        place.set_scope,
        storage.storage_align,
        storage.storage_swizzle,
        pipeline.pipeline,
        pipeline.double_buffer,
        storage.set_store_predicate,
        tensorize,
        prefetch,
        rolling_buffer,
        transform_layout,
        round_up,
    )
}
