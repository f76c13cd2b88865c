"""Credentials in what is about to leave the machine."""

from typing import Any

import pytest

from faber.sync.secret_scan import find
from faber.text.credentials import secret_values
from faber.text.safe_text import redact_json

TOKEN = "ghp_" + "k3" * 18
VALUES = {"plain-words-only": "SHOP_API_KEY"}


@pytest.mark.parametrize(
    ("name", "value", "taken"),
    [
        ("GITHUB_TOKEN", "abcdefgh", True),
        ("AWS_SECRET_ACCESS_KEY", "abcdefgh", True),
        ("DB_PASSWORD", "correct horse", True),
        ("MY_APIKEY", "abcdefgh", True),
        ("AWS_ACCESS_KEY_ID", "abcdefgh", True),
        ("dbpassword", "abcdefgh", True),
        ("PWD", "/home/ada/project", False),
        ("DB_PASSWORD", "short", False),
        ("TOKEN_FILE", "/run/secrets/token", False),
        ("TOKENIZER", "abcdefgh", False),
        ("SSH_AUTH_SOCK", "/tmp/agent.1", False),
        ("KEYBOARD", "us-international", False),
        ("HOME", "/home/ada", False),
    ],
)
def test_which_variables_hold_credentials(name: str, value: str, taken: bool) -> None:
    """A variable is named as one, its value is long enough, and no path."""
    assert bool(secret_values({name: value})) is taken


@pytest.mark.parametrize(
    ("document", "at"),
    [
        ({"a": {"b": ["x", f"see {TOKEN}"]}}, "a.b.1"),
        ({"a": [{TOKEN: 1}]}, "a.0, a key"),
        (TOKEN, "top level"),
        ({"message": "say plain-words-only twice"}, "message"),
        ({"message": "say plain words only"}, None),
        ({"id": "sk-a1b2c3d4e5f6g7h8i9j0"}, None),
        ({"number": 1, "none": None, "yes": True}, None),
    ],
)
def test_where_a_credential_stands(document: Any, at: str | None) -> None:
    """The place is named, never the text; a name of the plan is none, whatever it looks like."""
    found = find(document, VALUES, frozenset({"sk-a1b2c3d4e5f6g7h8i9j0"}))
    assert (found.at if found else None) == at
    assert TOKEN not in str(found)


def test_what_is_taken_out_is_not_there() -> None:
    """A redacted document contains no credentials."""
    document = {"a": [TOKEN, "plain-words-only!"], TOKEN: {"b": f"x{TOKEN}"}}
    assert find(redact_json(document, secrets=VALUES), VALUES) is None
