"""`inert` takes a short cut for text that is printable."""

import re

from faber.text.safe_text import _pattern, inert


def test_no_printable_character_is_invisible() -> None:
    """What `str.isprintable` lets pass, the pattern of invisible characters matches in the last planes alone."""
    every = "".join(map(chr, range(0xE0000)))
    assert not [character for character in _pattern("invisible").findall(every) if character.isprintable()]


def test_the_short_cut_keeps_what_the_pattern_keeps() -> None:
    """Tabs, newlines and blanks of other languages stay; controls between printable text go."""
    assert inert("a\tb\r\nc\n") == "a\tb\nc\n"
    assert inert("a\u00a0b\u3000c") == "a\u00a0b\u3000c"
    assert inert("a\x1b[31mb\u202ec") == "a[31mbc"
    assert not re.search(r"\x1b", inert("\x1b]52;c;x\x07"))
