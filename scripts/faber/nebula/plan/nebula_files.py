"""Read a nebula's directory."""

import os

from faber.errors import Severity, UnsafeFile
from faber.nebula.plan.budgets import written_elsewhere
from faber.nebula.plan.parse import MANIFEST, MAX_PHASES, Parsed, parse_nebula
from faber.nebula.plan.phase_file import MAX_FILE
from faber.nebula.plan.plan_errors import InvalidNebula
from faber.nebula.plan.problems import NebulaProblem
from faber.nebula.plan.state_file import MAX_STATE_FILE, STATE_FILE
from faber.store.external_files import Unreadable, read_text
from faber.store.files import read_bytes

MAX_ALL = 64_000_000


def load_nebula(directory: str) -> Parsed:
    """The nebula in `directory`: `nebula.toml` and every `*.md` next to it except README and hidden files.

    A file that cannot be read becomes a problem; the rest is still read. Raises `InvalidNebula` if the directory
    cannot be listed.
    """
    try:
        names = sorted(name for name in os.listdir(directory) if _is_phase_file(name))
    except OSError as error:
        raise InvalidNebula(
            f"{directory!a} cannot be read: {error.strerror}.",
            directory=directory,
            problems=[],
            recovery="Give a directory that contains a nebula.toml.",
        ) from None
    problems: list[NebulaProblem] = []
    if len(names) > MAX_PHASES:
        message = f"The directory has {len(names)} phase files; a nebula has at most {MAX_PHASES}."
        problems.append(NebulaProblem("bounds", Severity.ERROR, MANIFEST, None, message, "Split the nebula."))
        names = names[:MAX_PHASES]
    texts: dict[str, str] = {}
    size = 0
    for name in (MANIFEST, *names):
        try:
            texts[name] = read_text(os.path.join(directory, name), MAX_FILE)
            size += len(texts[name])
        except Unreadable as error:
            problems.append(_unreadable(name, f"It {error.reason}.", "Make it a UTF-8 text file."))
        except FileNotFoundError:
            if name != MANIFEST:
                problems.append(_unreadable(name, "It no longer exists.", "Run the command again."))
        except OSError as error:
            problems.append(_unreadable(name, f"It cannot be read: {error.strerror}.", "Make it readable."))
        if size > MAX_ALL:
            message = f"The nebula has more than {MAX_ALL // 1_000_000} MB of text."
            problems.append(NebulaProblem("bounds", Severity.ERROR, name, None, message, "Split the nebula."))
            break
    parsed = parse_nebula(directory, texts, lambda: _is_foreign(directory))
    # An unreadable nebula.toml must not be reported as missing as well.
    there = {problem.file for problem in problems if problem.category == "unreadable"}
    found = [p for p in parsed.problems if not (p.category == "unreadable" and p.file in there)]
    return parsed._replace(problems=problems + found)


def _is_foreign(directory: str) -> bool:
    try:
        return written_elsewhere(read_bytes(os.path.join(directory, STATE_FILE), MAX_STATE_FILE))
    except (OSError, UnsafeFile):
        return False  # whoever needs the file says so


def _is_phase_file(name: str) -> bool:
    return name.lower().endswith(".md") and not name.startswith(".") and name.lower() != "readme.md"


def _unreadable(name: str, message: str, fix: str) -> NebulaProblem:
    return NebulaProblem("unreadable", Severity.ERROR, name, None, message, fix)
