"""Causal 1-D convolutions and their updates, under the names of the package `causal_conv1d`."""
