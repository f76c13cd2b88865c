"""Which variables of an environment hold credentials, by their names. Pure."""

from collections.abc import Mapping

# A word of the name, between underscores, that ends so …
_ENDS = (
    *("TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS"),
    *("APIKEY", "ACCESSKEY", "SECRETKEY", "PRIVATEKEY"),
)
# … or is this, or, as the last one, this.
_WORDS = frozenset({"KEY", "PAT"})
_LAST = frozenset({"AUTH", "PASS", "PWD"})
# Shorter values are words and numbers that stand in any text.
LEAST = 8


def secret_values(environ: Mapping[str, str]) -> dict[str, str]:
    """The values of the variables that are named as credentials are, each with its variable's name; the longest first,
    so that one which stands inside another does not hide it.

    Paths are none: a variable often names the file that holds the credential.
    """
    found = {}
    for name, value in environ.items():
        value = value.strip()
        if len(value) >= LEAST and not value.startswith(("/", "~/", "./")) and _is_secret(name):
            found[value] = name
    return dict(sorted(found.items(), key=lambda item: (-len(item[0]), item)))


def _is_secret(name: str) -> bool:
    words = name.upper().split("_")
    return words[-1] in _LAST or any(word in _WORDS or word.endswith(_ENDS) for word in words)
