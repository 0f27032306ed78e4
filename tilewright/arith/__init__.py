"""Floor 2: what is known of integers, and what follows: facts, bounds, the simplifier, the prover, regions."""
