"""The loop grammar, its builder, printer, verifier and interpreter."""

from . import printer as printer  # gives the statements their text
