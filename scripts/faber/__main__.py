"""Entry point of `python -m faber` and of `python scripts/faber`."""

import gc
import sys

if not __package__:  # started as a file or a directory: make `faber` importable, not its inner modules
    from os.path import abspath, dirname

    here = dirname(abspath(__file__))
    sys.path[:] = [dirname(here), *(path for path in sys.path if path and abspath(path) != here)]

# Nearly all that a command allocates are the modules it imports, and they stay: looking through them dozens of
# times for garbage, and once more at the end, takes as long as starting Python. What runs for long still collects.
gc.set_threshold(50_000)

from faber.cli import main  # noqa: E402 - collecting is rare from here on

if __name__ == "__main__":
    status = main()
    gc.freeze()
    sys.exit(status)
