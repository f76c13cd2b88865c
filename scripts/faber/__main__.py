"""Entry point of `python -m faber` and of `python scripts/faber`."""

import sys

if not __package__:  # started as a directory: make `faber` importable instead of its inner modules
    from os.path import abspath, dirname

    sys.path[0] = dirname(dirname(abspath(__file__)))

from faber.cli import main

if __name__ == "__main__":
    sys.exit(main())
