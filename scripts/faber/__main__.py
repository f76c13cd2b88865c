"""Entry point of `python -m faber` and of `python scripts/faber`."""

import sys

if not __package__:  # started as a file or a directory: make `faber` importable, not its inner modules
    from os.path import abspath, dirname

    here = dirname(abspath(__file__))
    sys.path[:] = [dirname(here), *(path for path in sys.path if path and abspath(path) != here)]

from faber.cli import main

if __name__ == "__main__":
    sys.exit(main())
