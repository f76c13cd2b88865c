"""How often a command opens a file to read it."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from faber.store.layout import METADATA, PLAN, STATE

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
CONFIG = "config.yaml"
WATCHED = (STATE, METADATA, PLAN, CONFIG)

# What a command writes goes through a temporary file of another name, so only reading counts.
# Forks for each line it is given: what every command loads is loaded once.
COUNTING = """
import os, sys
from faber.cli.app import main
opened = []
def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], str):
        opened.append(os.path.basename(arguments[0]) or "/")
for line in sys.argv[1:]:
    pid = os.fork()
    if pid == 0:
        sys.argv[1:] = line.split("\\t")
        sys.addaudithook(hook)
        status = main(sys.argv[1:])
        sys.stdout.flush()
        sys.stderr.write("\\n".join(["\\nOPENED", *opened, "", ""]))
        sys.stderr.flush()
        os._exit(status)
    if os.waitpid(pid, 0)[1]:
        sys.exit(line)
"""


def opened(
    project: Path, *commands: Sequence[str], environment: Mapping[str, str] | None = None
) -> list[dict[str, int]]:
    """How often each `faber COMMAND`, which must succeed, opens each of the watched files.

    `environment` replaces that of the tests, of which faber's and the client's own variables are left out.
    """
    if environment is None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("FABER_", "CLAUDE"))}
    done = subprocess.run(
        [sys.executable, "-c", COUNTING, *map("\t".join, commands)],
        cwd=project,
        env={**environment, "PYTHONPATH": str(SCRIPTS)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts = [Counter(each.partition("\n\n")[0].splitlines()) for each in done.stderr.split("\nOPENED\n")[1:]]
    assert len(counts) == len(commands), done.stderr
    return [{name: count[name] for name in WATCHED if count[name]} for count in counts]
