"""`python -m tilewright`: the command line."""

from .cli import main

main()
