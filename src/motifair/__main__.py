"""`python -m motifair` is the command `motifair`."""

from motifair.cli import main

main()
