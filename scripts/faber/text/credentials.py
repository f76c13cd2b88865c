"""Which environment variables hold credentials, judged by their names. Pure."""

from collections.abc import Mapping

# A variable holds a credential if a word of its name (between underscores) ends with one of these …
_ENDS = (
    *("TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS"),
    *("APIKEY", "ACCESSKEY", "SECRETKEY", "PRIVATEKEY"),
)
# … or equals one of these; or if its last word equals one of those in _LAST.
_WORDS = frozenset({"KEY", "PAT"})
_LAST = frozenset({"AUTH", "PASS", "PWD"})
# Shorter values are words and numbers that occur in any text.
MIN_LENGTH = 8


def secret_values(environ: Mapping[str, str]) -> dict[str, str]:
    """The values of variables with a credential's name, each mapped to the variable; longest first, so that a value
    contained in another does not hide it.

    Paths are left out: a variable often names the file that holds the credential.
    """
    found = {}
    for name, value in environ.items():
        value = value.strip()
        if len(value) >= MIN_LENGTH and not value.startswith(("/", "~/", "./")) and _is_secret(name):
            found[value] = name
    return dict(sorted(found.items(), key=lambda item: (-len(item[0]), item)))


def _is_secret(name: str) -> bool:
    words = name.upper().split("_")
    return words[-1] in _LAST or any(word in _WORDS or word.endswith(_ENDS) for word in words)
