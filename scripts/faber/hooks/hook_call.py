"""What a hook's handler is given, and how it answers."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from faber.store.layout import Layout


class Call(NamedTuple):
    """What a handler gets: the client's JSON object (empty if there was none), the session, the project's store, the
    directory the session works in, and the path of `bin/faber`."""

    given: Mapping[str, object]
    session: str | None
    layout: Layout
    here: str
    faber: str

    def text(self, name: str, limit: int = 200) -> str:
        """The client's value for `name` as one bounded line of inert text; empty if there is none."""
        from faber.hooks.lines import line

        value = self.given.get(name)
        return "" if value is None else line(value if isinstance(value, str) else repr(value), limit)


def say(text: str) -> None:
    """Write to stdout at once; a closed stdout does not stop the hook's other work."""
    left = memoryview(text.encode("utf-8", "replace"))
    try:
        while left:
            left = left[os.write(1, left) :]
    except OSError:
        pass
