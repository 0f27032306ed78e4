"""Which region of each tensor its readers need, and so the range of every axis."""
