"""What this program prints."""

import sys


def write(text: str) -> None:
    """Write `text` to stdout, escaping what the locale's encoding cannot hold."""
    if sys.stdout is None:  # closed by the parent process
        return
    try:
        sys.stdout.write(text)
    except UnicodeEncodeError:
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
