"""Imports click without two modules of the standard library that it imports and a short command never uses.

`inspect` and `uuid` bring what parses Python and names the platform: a third of what importing click costs.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Later(ModuleType):
    """Stands for a module until something of it is used."""

    def __getattr__(self, name: str) -> Any:
        self.step_aside()
        return getattr(import_module(self.__name__), name)

    def step_aside(self) -> None:
        """The next import of this name is one of the module itself."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]


def cleandoc(text: str) -> str:
    """What `inspect.cleandoc` does, the only function of it that defining a command calls."""
    first, *rest = text.expandtabs().split("\n")
    margin = min((len(line) - len(line.lstrip()) for line in rest if line.strip()), default=0)
    lines = [first.lstrip(), *(line[margin:] for line in rest)]
    while lines and not lines[-1]:
        lines.pop()
    while lines and not lines[0]:
        lines.pop(0)
    return "\n".join(lines)


def import_click() -> None:
    """Import click; what it needs of the two modules is loaded when it uses it."""
    stand_ins = {name: _Later(name) for name in ("inspect", "uuid") if name not in sys.modules}
    sys.modules.update(stand_ins)
    if "inspect" in stand_ins:
        stand_ins["inspect"].__dict__["cleandoc"] = cleandoc
    if "uuid" in stand_ins:
        stand_ins["uuid"].__dict__["UUID"] = Any  # while click is imported, only a parameter of a type
    try:
        import click  # noqa: F401 - loaded for those who import it next
    finally:
        for module in stand_ins.values():
            module.step_aside()
        if "uuid" in stand_ins:
            del stand_ins["uuid"].__dict__["UUID"]
