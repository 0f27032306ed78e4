"""Messages for users who come from Python, NumPy or the legacy API, with replacements.

Floors report the request (`core/refusals.py`); here are the words, one module per subject. A module is imported when
its subject is first refused, so that `import tilewright` stays quick.
"""
