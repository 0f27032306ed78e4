"""The loop grammar, its builder, printer, verifier and interpreter."""

from ..core.views import hook_in
from . import printer as printer  # gives the statements their text

hook_in("statement", f"{__name__}.declared_statement", "declared_statement")
