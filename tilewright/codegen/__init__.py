"""Floor 8: finished programs as source text, compiled code, and the description of how to call it."""
