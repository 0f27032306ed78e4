"""Tuning runs: they inspect, measure, record and show candidates until the trials are used up."""
