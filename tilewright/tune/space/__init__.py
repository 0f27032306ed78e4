"""Search spaces: knobs, their choices, the space they span, and one configuration of it."""
