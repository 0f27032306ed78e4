"""Searches, which propose configurations: grid, random, genetic, droplet, annealing on a learned model, and guided."""
