"""Passes over loop programs, one file each; `pass_list.py` lists them in order."""
