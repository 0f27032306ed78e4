"""Which configurations to try next: grid, random, genetic, and annealing on a learned model."""
