"""Entry point of `bin/faber hook EVENT`, with the JSON that the client gives its hooks on stdin.

Prints what the client is to take in, or nothing; exits with 0, whatever happens. FABER_DEBUG=1 shows on stderr what
went wrong. It may be started by any Python, before faber's environment is built.
"""

import os
import sys


def main() -> None:
    """Answer one call."""
    if sys.version_info < (3, 11) or os.environ.get("FABER_CHILD"):
        return  # FABER_VENV may hold any Python
    # One short call makes no garbage worth looking for.
    import gc

    gc.disable()
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from faber.hooks.hook_call import answer

    answer(sys.argv[1] if len(sys.argv) > 1 else "")


if __name__ == "__main__":
    try:
        main()
    except BaseException:  # noqa: BLE001 - a hook that fails must not be the session's trouble
        if os.environ.get("FABER_DEBUG"):
            import traceback

            traceback.print_exc()
            sys.stderr.flush()
    finally:
        os._exit(0)  # what is left of the interpreter's ending can only fail
