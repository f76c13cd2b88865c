"""Writing TOML."""

from collections.abc import Mapping

from faber.text.safe_text import encodable


def toml_text(table: Mapping[str, object]) -> str:
    """`table` as a TOML document; keys whose value is None are left out, lone surrogates become U+FFFD.

    Raises `TypeError` for a value that TOML does not have.
    """
    import tomli_w  # here: only what writes pays for it, and most commands only read

    return encodable(tomli_w.dumps({key: value for key, value in table.items() if value is not None}))
