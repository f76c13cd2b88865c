"""Which variables of an environment hold credentials, by their names. Pure."""

import re
from collections.abc import Mapping

_NAME = re.compile(
    r"(?:^|_)(?:TOKEN|SECRETS?|PASSWORD|PASSWD|PASSPHRASE|API_?KEY|ACCESS_?KEY|SECRET_?KEY|PRIVATE_?KEY|CREDENTIALS?|"
    r"PAT)(?:_|$)|(?:^|_)(?:KEY|AUTH|PASS|PWD)$",
    re.IGNORECASE,
)
# Shorter values are words and numbers that stand in any text.
_SHORTEST = 8


def secret_values(environ: Mapping[str, str]) -> dict[str, str]:
    """The values of the variables that are named as credentials are, with the variable's name; the longest first, so
    that one which stands inside another does not hide it.

    Paths are none: a variable often names the file that holds the credential.
    """
    found = {
        value.strip(): name
        for name, value in environ.items()
        if _NAME.search(name) and len(value.strip()) >= _SHORTEST and not value.strip().startswith(("/", "~/", "./"))
    }
    return dict(sorted(found.items(), key=lambda entry: (-len(entry[0]), entry)))
