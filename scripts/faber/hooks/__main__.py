"""Entry point of `bin/faber hook EVENT`, with the JSON that the client gives its hooks on stdin.

Prints the hook's answer, or nothing; always exits with 0. FABER_DEBUG=1 prints errors to stderr. Any Python may start
it, before faber's environment is built.
"""

import os
import sys


def main() -> None:
    """Answer one call."""
    if sys.version_info < (3, 11) or os.environ.get("FABER_CHILD"):
        return  # FABER_VENV may hold any Python
    # One short call creates too little garbage to collect.
    import gc

    gc.disable()
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from faber.hooks.dispatch import answer

    answer(sys.argv[1] if len(sys.argv) > 1 else "")


if __name__ == "__main__":
    try:
        main()
    except BaseException:  # noqa: BLE001 - a failing hook must not disturb the session
        if os.environ.get("FABER_DEBUG"):
            import traceback

            traceback.print_exc()
            sys.stderr.flush()
    finally:
        os._exit(0)  # the interpreter's shutdown could only fail
