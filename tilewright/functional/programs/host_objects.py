"""The machine code of the launcher and the thread pool, stored on disk as kernels are."""

from __future__ import annotations

import hashlib
import os

from ...runtime import thread_pool
from ...runtime.device import cpu
from . import fingerprint
from .store import KernelStore, StoredKernel, store


def host_store() -> KernelStore:
    """Return the store, a folder inside the store of kernels."""
    held = store()
    return KernelStore(None if held.folder is None else os.path.join(held.folder, "host"), held.limit, held)


def compiled(text: str) -> bytes:
    """Return the object file of LLVM IR for this machine; it is compiled once for all processes."""
    facts = (text, fingerprint.machine(cpu()), fingerprint.compiler("cpu"))
    key = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:40]
    found = host_store().get(key)
    if found is not None:
        return found.binary
    binary = thread_pool.compiled_now(text)
    if store().folder is not None:
        host_store().put(key, StoredKernel({}, binary))
    return binary


thread_pool.compile_by(compiled)
