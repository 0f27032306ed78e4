"""Floor 2: intervals, modular sets, affine forms, facts, rewrite rules as data, simplifier and prover."""
