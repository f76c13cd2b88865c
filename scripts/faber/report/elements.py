"""HTML and SVG elements. Whatever is put into one is text: escaped, inert, without credentials, and bounded.

The only way to markup is `element`, so that no text of a run can become an element, an attribute or a link that loads
something.
"""

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from html import escape

from faber.text.safe_text import encodable, inert, may_have_secret, redact, shorten

LONGEST = 2_000  # characters of one text
_SHORT = 40

_VOID = frozenset({"br", "input", "meta"})
_SHAPES = frozenset({"line", "path", "rect"})
# Attributes that run or load something are unknown here; links are checked.
_ATTRIBUTE = re.compile(r"(?!on|style|src|action|formaction|data$)[a-zA-Z][a-zA-Z0-9-]*")
_LINK = re.compile(r"#[\w-]*|https?://[!-~]+", re.ASCII)

Child = object  # Markup, or anything that is shown as text; None is left out


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


def element(name: str, /, *children: Child, **attributes: str | int | float | bool | None) -> Markup:
    """`<name …>children</name>`. Attributes that are None or False are left out, True has no value; `_` in a name
    stands for `-`, and one at the end is left out (`class_`)."""
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = _attribute(key)
        if key == "href" and not is_link(str(value)):
            raise ValueError(f"{name} may not lead to {value!r}")
        parts.append(f" {key}" if value is True else f' {key}="{clean(value)}"')
    if name in _VOID or (name in _SHAPES and not children):
        return Markup("".join([*parts, "/>" if name in _SHAPES else ">"]))
    return Markup("".join([*parts, ">", *(markup(child) for child in children), f"</{name}>"]))


@cache
def _attribute(key: str) -> str:
    """An attribute's name in HTML; raises `ValueError` for one that runs or loads something."""
    name = key.rstrip("_").replace("_", "-")
    if not _ATTRIBUTE.fullmatch(name):
        raise ValueError(f"{name} may not be used")
    return name


def together(children: Iterable[Child]) -> Markup:
    """Elements and texts one after the other."""
    return Markup("".join(markup(child) for child in children))


def markup(child: Child) -> str:
    """An element as it is, any other value as escaped text; nothing for None."""
    if child is None:
        return ""
    return child if isinstance(child, Markup) else clean(child)


def clean(value: object, limit: int = LONGEST) -> str:
    """A value as escaped text of at most `limit` characters."""
    text = value if isinstance(value, str) else str(value)
    return _known(text) if len(text) <= _SHORT else _cleaned(text, limit)


def _cleaned(text: str, limit: int) -> str:
    if len(text) > 4 * limit:  # a line of a megabyte is not searched as a whole
        text = f"{text[: 4 * limit]} […{len(text) - 4 * limit} more characters]"
    text = encodable(inert(text))
    # Numbers and times are most of a log; without a letter only a URL could hold a password.
    if ("://" in text or text.lower() != text.upper()) and may_have_secret(text.encode()):
        text = redact(text)
    return escape(shorten(text, limit))


@lru_cache(2_048)
def _known(text: str) -> str:
    """A short text: names, types and attributes come again in every row."""
    return _cleaned(text, LONGEST)


def link(text: Child, target: object) -> Markup:
    """A link, where `target` is one to a place in the page or in the web; else the text alone."""
    if not is_link(str(target)):
        return Markup(markup(text))
    return element("a", text, href=str(target), rel=None if str(target)[0] == "#" else "noreferrer noopener")


def is_link(target: str) -> bool:
    """True for `#place` and for the address of a web page."""
    return len(target) < LONGEST and _LINK.fullmatch(target) is not None
