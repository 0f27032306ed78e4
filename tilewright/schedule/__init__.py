"""Floor 4: schedules as immutable values, the primitives that transform them, and the handle users touch."""
