"""The versions of the Claude Code client that faber is tested with, and which one is installed."""

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from faber.processes.runner import Program, run

# Both ends are driven by the tests.
OLDEST = (2, 1, 197)
NEWEST = (2, 1, 330)
# From this version on, the total that a client prints covers its session; before, the turn alone (measured on both).
SESSION_TOTALS = (2, 1, 277)
# From this version on, the wait of CLAUDE_CODE_RETRY_WATCHDOG has a bound.
BOUNDED_RETRIES = (2, 1, 295)
RETRIES_MS = "120000"
SECONDS = 5.0
Version = tuple[int, ...]


class Installed(NamedTuple):
    """A client: what starts it, and its version; None if it named none."""

    program: str
    version: Version | None


def parse(text: str | None) -> Version | None:
    """The numbers of `2.1.330` or `2.1.330 (Claude Code)`; None if `text` does not begin with a version."""
    found = re.match(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})(?=$|[ \t\n+-])", text or "", re.ASCII)
    return tuple(map(int, found.groups())) if found else None


def spelled(version: Version) -> str:
    """`2.1.330`."""
    return ".".join(map(str, version))


def client_program(environ: Mapping[str, str]) -> str:
    """What starts agents: `$FABER_CLAUDE`, else the client of the session that faber runs in, else `claude` on PATH."""
    of_session = environ.get("CLAUDE_CODE_EXECPATH", "")
    return environ.get("FABER_CLAUDE") or (of_session if os.access(of_session, os.X_OK) else "claude")


def installed(environ: Mapping[str, str]) -> Installed | None:
    """The client of this session, else the one that faber would start; None if there is none.

    Runs it with `--version`, which takes a tenth of a second.
    """
    program = environ.get("CLAUDE_CODE_EXECPATH") or client_program(environ)
    said = run(Program([program, "--version"], {**environ, "DISABLE_AUTOUPDATER": "1"}), seconds=SECONDS)
    if said.problem in ("missing", "failed"):
        return None
    return Installed(program, parse(said.out) if said.ok else None)


def retry_settings(version: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that let a client of this version repeat a refused request for two minutes, and no longer.

    Without them both ends of the window give up an overload after three seconds, and the agent's work of that turn is
    lost. A client without the bound would wait inside its turn until a limit is over, unseen.
    """
    if version is None or (parse(version) or NEWEST) < BOUNDED_RETRIES:
        return {"CLAUDE_CODE_RETRY_WATCHDOG": "0"}
    return {
        "CLAUDE_CODE_RETRY_WATCHDOG": "1",
        "CLAUDE_CODE_RETRY_WATCHDOG_MAX_WAIT_MS": RETRIES_MS,
        "CLAUDE_CODE_MAX_RETRIES": environ.get("CLAUDE_CODE_MAX_RETRIES") or "10",  # of errors other than 429 and 529
    }


def totals_cover_the_session(version: str | None) -> bool:
    """True if a client of this version prints totals of its session. A client without a version prints the turn's; a
    version that cannot be parsed counts as new."""
    return version is not None and (parse(version) or NEWEST) >= SESSION_TOTALS
