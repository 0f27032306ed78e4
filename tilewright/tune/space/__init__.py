"""Search spaces: knobs, their choices, the space that they span, and its configurations."""
