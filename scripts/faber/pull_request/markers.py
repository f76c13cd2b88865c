"""faber's part of a pull request's body: what stands between two hidden lines. What is around them is a person's.

Pure.
"""

import re

from faber.github.posting import MAX_COMMENT, safe_name

END = "<!-- /faber:pull-request -->"
_BEGIN = re.compile(r"<!-- faber:pull-request [A-Za-z0-9._/%-]{1,500} -->")


def begin(run_id: str) -> str:
    """The hidden line before faber's part."""
    return f"<!-- faber:pull-request {safe_name(run_id)} -->"


def enclosed(text: str, run_id: str) -> str:
    """faber's part as it stands in a body."""
    return f"{begin(run_id)}\n{text.strip()}\n{END}"


def room(body: str, run_id: str) -> int:
    """How many characters faber's part may have beside what else is in the body."""
    around = replaced(body, "", run_id)
    return MAX_COMMENT - len(enclosed("", run_id) if around is None else around)


def replaced(body: str, text: str, run_id: str) -> str | None:
    """The body with its part of faber's replaced by `text`; None if it has none, or only one of the two lines.

    The first such line begins the part, and the last one ends it: nothing that the part quotes can.
    """
    lines = body.replace("\r\n", "\n").split("\n")
    first = next((number for number, line in enumerate(lines) if _BEGIN.fullmatch(line.strip())), None)
    last = next((number for number in range(len(lines) - 1, -1, -1) if lines[number].strip() == END), None)
    if first is None or last is None or last < first:
        return None
    return "\n".join([*lines[:first], *enclosed(text, run_id).split("\n"), *lines[last + 1 :]])


def is_of(body: str, run_id: str) -> bool:
    """True if the body says that it is of this run."""
    return any(line.strip() == begin(run_id) for line in body.splitlines())
