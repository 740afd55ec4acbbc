"""The command line: ``davylamp``, and ``kubectl davylamp`` where kubectl finds plugins."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and leave the process with its exit code."""
    if sys.argv[1:] in (["version"], ["--version"]):
        # Asked by scripts and by people who wait: not worth the loading of anything else.
        from davylamp import __version__

        print(f"davylamp {__version__}")
        return
    from davylamp.cli.app import run

    run()
