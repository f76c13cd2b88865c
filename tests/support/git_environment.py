"""What git reads of its surroundings in tests: nobody's configuration, and somebody to commit as."""

import os
from pathlib import Path

# Repositories of tests live for seconds: no sample hooks, nothing to collect, no disk to wait for.
_BRIEF = Path(__file__).parents[1] / "fixtures" / "gitconfig"
IDENTITY = {
    "GIT_AUTHOR_NAME": "test",
    "GIT_AUTHOR_EMAIL": "test@example.invalid",
    "GIT_COMMITTER_NAME": "test",
    "GIT_COMMITTER_EMAIL": "test@example.invalid",
}
# Without any configuration: git knows who commits, but not what a person is called.
UNCONFIGURED = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
COMMITTER = {"GIT_CONFIG_GLOBAL": str(_BRIEF), "GIT_CONFIG_SYSTEM": os.devnull} | IDENTITY
CONFIGURATION = "[user]\n\tname = A\n\temail = a@example.com\n" + _BRIEF.read_text()
