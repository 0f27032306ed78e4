"""Interned nodes, data types, hardware limits, caller locations and the error families."""
