"""Imports click without three modules of the standard library that it imports and a short command never uses.

`inspect` and `uuid` bring what parses Python and names the platform: a third of what importing click costs. `gettext`
looks on disk for translations of each message, which click does not have.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Later(ModuleType):
    """Stands for a module until something of it is used."""

    def __getattr__(self, name: str) -> Any:
        if name == "__path__":  # asked for by `from … import …`
            raise AttributeError(name)
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


def _ngettext(singular: str, plural: str, number: int) -> str:
    return singular if number == 1 else plural


def import_click() -> None:
    """Import click; what else it needs of the three modules is loaded when it uses it."""
    provided: dict[str, dict[str, Any]] = {
        "inspect": {"cleandoc": cleandoc},
        "gettext": {"gettext": str, "ngettext": _ngettext},
        "uuid": {"UUID": Any},  # while click is imported, only a parameter of a type
    }
    stand_ins = {name: _Later(name) for name in provided if name not in sys.modules}
    for name, module in stand_ins.items():
        module.__dict__.update(provided[name])
        sys.modules[name] = module
    try:
        import click  # noqa: F401 - loaded for those who import it next
    finally:
        for module in stand_ins.values():
            module.step_aside()
        if "uuid" in stand_ins:
            del stand_ins["uuid"].__dict__["UUID"]
