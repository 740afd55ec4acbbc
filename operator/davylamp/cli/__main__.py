"""`python -m davylamp.cli`."""

from davylamp.cli import main

main()
