"""A person at a terminal, beside the clients."""

import io
import json
import os
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

from faber.cli import main


def person(project: Path, *arguments: str) -> Any:
    """What faber answers a person who calls it in the project, in a terminal of their own."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("CLAUDE", "FABER_"))}
    said = io.StringIO()
    with patch.dict(os.environ, bare, clear=True), chdir(project), redirect_stdout(said):
        status = main(list(arguments))
    assert status == 0, said.getvalue()
    return json.loads(said.getvalue())
