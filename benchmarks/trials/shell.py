"""Which programs a shell command starts, as far as can be told without a shell: enough to know faber's own calls."""

import re
import shlex
from collections.abc import Iterator, Mapping
from itertools import dropwhile

_HERE = re.compile(r"(?<!<)<<-?\s*(['\"\\]?)(\w+)['\"]?")
_TOKEN = re.compile(
    r"""(?P<note>(?<![^\s;&|(])\#[^\n]*)
    | (?P<redirected>\d*&?(?:<<<|>>|<>|[<>](?!\())[&|]?)
    | (?P<cut>\|\||&&|\|&|[|&;()\n])
    | (?P<word>(?:\\. | '[^']*' | "(?:\\.|[^"\\])*" | `[^`]*` | \$\((?:[^()]|\([^()]*\))*\) | [^\s;&|()<>])+)""",
    re.DOTALL | re.VERBOSE,
)
_ASSIGNED = re.compile(r"(\w+)\+?=(.*)", re.DOTALL)
_SUBSTITUTED = re.compile(r"\$\((.*)\)|`(.*)`", re.DOTALL)
_BEFORE = {"!", "{", "}", "if", "then", "elif", "else", "fi", "while", "until", "do", "done"}
# They start, or look for, the program that is named behind their options and numbers.
_STARTERS = {
    "command", "env", "exec", "ionice", "nice", "nohup", "stdbuf", "sudo", "time", "timeout", "type", "which",
}  # fmt: skip
_SHELLS = {"bash", "dash", "sh", "zsh"}
# They do nothing of the work.
_IDLE = {
    "", ".", ":", "[", "[[", "cd", "echo", "exit", "export", "false", "for", "local", "popd", "printf", "pushd", "pwd",
    "read", "return", "set", "sleep", "source", "test", "true", "unset", "wait",
}  # fmt: skip
# What is written there changes nothing of the work.
_NOWHERE = (">/dev/", ">/tmp/", ">$TMPDIR")


def only_faber(command: str) -> bool:
    """Whether a command starts faber and does nothing of the work besides: it may change the directory, set variables,
    print to no file of the work, and filter what faber has printed."""
    try:
        verdicts = set(_verdicts(command, {}))
    except RecursionError:
        return False
    return "faber" in verdicts and "work" not in verdicts


def _verdicts(command: str, variables: dict[str, str]) -> Iterator[str]:
    """What each pipeline is, by its first program that does anything: `faber`, `work`, or neither."""
    for pipeline in _pipelines(command):
        found = [set(_simple(words, variables, piped=len(pipeline) > 1)) - {""} for words in pipeline]
        first = next((each for each in found if each), {""})
        yield "work" if "work" in first else first.pop()


def _pipelines(command: str) -> Iterator[list[list[str]]]:
    """The words of each simple command, by pipelines; a file that it writes is a word that begins with `>`."""
    pipeline: list[list[str]] = [[]]
    skipping = ""  # the redirection whose file comes next
    for token in _TOKEN.finditer("\n".join(_without_documents(command))):
        kind, said = token.lastgroup, token[0]
        if kind == "cut":
            if said in {"|", "|&"}:
                pipeline.append([])
            else:
                yield pipeline
                pipeline = [[]]
        elif kind == "word" and not skipping:
            pipeline[-1].append(said)
        elif kind == "word" and ">" in skipping and not skipping.endswith("&") and pipeline[-1]:
            pipeline[-1].append(">" + _bare(said))
        skipping = said if kind == "redirected" else ""
    yield pipeline


def _without_documents(command: str) -> Iterator[str]:
    """The lines of a command without those of its here-documents."""
    until = ""
    lines = command.replace("\\\n", " ").split("\n")
    last = {line.strip(): number for number, line in enumerate(lines)}
    for number, line in enumerate(lines):
        if until:
            until = "" if line.strip() == until else until
            continue
        found = _HERE.search(line)
        # What no line ends is none: `<<` in a text, or a shift.
        until = found[2] if found and last.get(found[2], 0) > number else ""
        yield _HERE.sub("", line) if until else line


def _simple(words: list[str], variables: dict[str, str], *, piped: bool) -> Iterator[str]:
    while words:
        if assigned := _ASSIGNED.fullmatch(words[0]):
            variables[assigned[1]] = _bare(assigned[2])
            yield from _inside(words[:1], variables)
        elif words[0] not in _BEFORE:
            break
        words = words[1:]
    program = _name(words[0], variables) if words else ""
    if program == "faber":
        yield "faber"
    elif program in _STARTERS:
        rest = words[1:]
        while rest and re.match(r"-|\d", rest[0]):
            rest = rest[1:]
        yield from _simple(rest, variables, piped=piped)
    elif program == "eval":
        given = dropwhile(lambda word: word == "eval", words)
        yield from _verdicts(" ".join(map(_bare, given)), variables)
    elif program in _SHELLS:
        yield from _shell(words[1:], variables)
    elif program in _IDLE:
        if any(word.startswith(">") and not word.startswith(_NOWHERE) for word in words):
            yield "work"
        yield from _inside(words[1:], variables)
    elif not (piped and program == "cat"):
        yield "work"


def _shell(words: list[str], variables: dict[str, str]) -> Iterator[str]:
    """What a shell is given: a command behind `-c`, or a script."""
    command = next((at + 1 for at, word in enumerate(words) if re.fullmatch(r"-\w*c", word)), 0)
    if command:
        yield from _verdicts(_bare("".join(words[command : command + 1])), variables)
    else:
        yield from _simple([word for word in words if not word.startswith("-")][:1], variables, piped=False)


def _inside(words: list[str], variables: dict[str, str]) -> Iterator[str]:
    """What the words substitute: `$(faber next)`."""
    for word in words:
        if not word.startswith("'") and (found := _SUBSTITUTED.search(word)):
            yield from _verdicts(found[1] or found[2] or "", variables)


def _name(word: str, variables: Mapping[str, str]) -> str:
    """The name of the program that a word names, wherever it lies."""
    bare = _bare(word)
    bare = variables.get(bare.strip("${}"), bare) if bare.startswith("$") else bare
    return re.split(r"[\s/]", bare.rstrip(")`"))[-1]


def _bare(word: str) -> str:
    """A word as the shell hands it on, nothing in it substituted."""
    try:
        return " ".join(shlex.split(word))
    except ValueError:
        return word
