"""Compiled programs: machine code and its launches, loaded onto a device, and kept on disk."""
