"""How whoever reads an answer calls faber, put in place of the word `faber` in the commands that faber prints.

The code writes every command as `faber …`. An agent needs the path of the program instead: the one that it may run
unasked. Only what faber wrote is respelled: texts of agents, people and other programs stay as they are.
"""

import re
from typing import Any

PERSONS = "faber"
# What holds a whole command, or several.
COMMANDS = frozenset(
    {"answer_with", "command", "complete_with", "next_command", "next_steps", "show", "start_with", "takeover_with"}
)
# What holds faber's own prose, with commands as code. A workflow's author writes instructions.
PROSE = frozenset({"fix", "instruction", "recovery"})
# Where faber's own objects stand inside an answer; what stands anywhere else is a document or comes from outside.
OWN = frozenset(
    {"decisions", "error", "findings", "gate", "next", "next_steps", "omitted", "problems", "reports", "warnings"}
)

_PLAIN = re.compile(r"[A-Za-z0-9_@%+:,./=-]+", re.ASCII)
# A command as code within a line, or as an indented line of its own.
_CODE = r"(?m)`faber ([^`]*)`|^(    )faber (.*)$"
# A word of its own; what is quoted is somebody's text.
_RUN = r"(?<=\s)RUN(?=\s|$)"
_QUOTE = r"(?s)['\"].*"


def shell_word(path: str) -> str:
    """`path` as one word for a shell: in double quotes, as permission rules have it, only if it needs any."""
    if _PLAIN.fullmatch(path):
        return path
    return '"' + "".join("\\" + c if c in '\\"$`' else c for c in path) + '"'


def respelled(value: Any, program: str, run_id: str | None = None) -> Any:
    """An answer with its commands spelled with `program`; in an instruction's, RUN is the answer's run."""
    if isinstance(value, list):
        return [respelled(each, program, run_id) for each in value]
    if not isinstance(value, dict):
        return value
    named = value.get("run_id")
    known = named if isinstance(named, str) else run_id
    return {key: _entry(key, entry, program, known) for key, entry in value.items()}


def _entry(key: str, value: Any, program: str, run_id: str | None) -> Any:
    if isinstance(value, str):
        if key in COMMANDS:
            return command(value, program)
        if key in PROSE:
            return prose(value, program, run_id if key == "instruction" else None)
        return value
    if key in COMMANDS and isinstance(value, list):
        return [command(each, program) if isinstance(each, str) else respelled(each, program, run_id) for each in value]
    return respelled(value, program, run_id) if key in OWN else value


def command(text: str, program: str) -> str:
    """One whole command."""
    return program + text.removeprefix(PERSONS) if text.startswith(f"{PERSONS} ") else text


def prose(text: str, program: str, run_id: str | None = None) -> str:
    """A text with commands as code: in backticks, or on indented lines; RUN in them is `run_id`, if it is given."""

    def spelled(found: re.Match[str]) -> str:
        inline, indent, line = found.groups()
        rest = inline if line is None else line
        if run_id:
            plain = re.sub(_QUOTE, "", rest)
            rest = re.sub(_RUN, lambda _: run_id, plain) + rest[len(plain) :]
        said = f"{program} {rest}"
        return f"`{said}`" if line is None else indent + said

    return re.sub(_CODE, spelled, text)
