"""Refinements of a schedule for a target before loops are built: loops of the compiler's own instead of the
schedule's."""
