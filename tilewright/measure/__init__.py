"""Candidates built in a pool of processes, run in one that may be killed, checked and timed."""
