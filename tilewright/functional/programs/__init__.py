"""Compiled programs: machine code and its launches, loaded onto devices and stored on disk."""
