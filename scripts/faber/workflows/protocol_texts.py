"""The protocols: what an agent does step by step, as texts that `faber protocol` prints."""

import os

from faber.errors import InvalidInput
from faber.store.bundle import plugin_root

PROTOCOLS = os.path.join(plugin_root(), "workflows")


def protocols() -> dict[str, str]:
    """Every protocol's name and title."""
    names = sorted(name.removesuffix(".md") for name in os.listdir(PROTOCOLS) if name.endswith(".md"))
    return {name: _read(name).partition("\n")[0].removeprefix("# ") for name in names}


def protocol_text(name: str) -> str:
    """The text of a protocol; raises `InvalidInput` with the known names."""
    known = protocols()
    if name not in known:
        raise InvalidInput(
            f"{name[:60]!a} is not a protocol.", known=list(known), recovery=f"Use one of: {', '.join(known)}."
        )
    return _read(name)


def _read(name: str) -> str:
    with open(os.path.join(PROTOCOLS, f"{name}.md"), encoding="utf-8") as file:
        return file.read()
