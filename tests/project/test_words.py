"""The words of everything that people and models read: documents, prompts, messages, docstrings, comments."""

import ast
import re
import subprocess
import tokenize
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Phrases that a reader must read twice, and what to write instead.
ODD = {
    r"(made|makes?|making) good": "fix, repair",
    r"(go|goes|gone|going|went) on": "continue, resume",
    r"come by": "found, obtained",
    r"heed(s|ed)?": "follow, apply",
    r"no turn can be paid": "the budget is exhausted",
    r"(that|which|what) (is|are|was|were) (?-i:none)(?! of)": "say what it is",
    r"(that|which|what) (is|are|was|were) no (?!longer|more|such)": "is not a",
    r"anew": "again",
    r"in force": "in effect",
    r"afresh": "again, from the start",
    r"mend(s|ed|ing)?": "fix",
    r"(?<!\")begun": "started, in progress",
    r"can(not)? be had": "is unavailable",
    r"(event|time|cycle) more of": "another",
    r"what (became|becomes) of": "the outcome of",
    r"is not let do": "may not",
    r"put right": "fix",
    r"stands? beside": "is next to",
    r"who is waited for": "who must answer",
    r"gone back (to|on) again": "repeat",
    r"handed out by": "returned by, assigned by",
    r"of (his|her|its|their) own making": "own",
    r"does without uv": "does not use uv",
    r"(is|are) to be done( again)?": "must be done, must be repeated",
    r"where (it|he|she|one|somebody|the caller) stands": "the current directory, the current step",
    r"(is|are) let (go|pass|in)": "is allowed, passes",
    r"the way is open": "the run may continue",
    r"(is|are|was|were) awaited to": "waiting for an answer to",
    r"nobody (is )?asks? (any more|anything)": "no request is open",
    r"what (made|makes) way": "what was replaced",
    r"let(ting)? go of": "release",
    r"in its turn": "then",
    r"by no means": "not",
    r"(is|are|was|were) told as": "is reported as",
    r"asking nobody": "without prompting",
    r"nobody (is told|watches)": "nothing is shown",
    r"pa(id|ys?) for (a|an|the|another|one|its) (turn|cycle)s?": "is left for another turn, is in the budget",
    r"in the making": "a draft",
    r"what to make of": "how to combine, how to treat",
    r"(once|commit|connection|object) a (request|push|file)": "per",
    r"(there is|is there) none to": "there is no",
    r"if (it|that) is none": "if it does not describe one",
    r"within (his|her|its|their) rights": "what it may do",
    r"as much of it as": "the keys that it has",
    r"brings? none": "gives no answer",
    r"came to so far": "the result so far",
    r"is to be (ended|stopped)": "must end",
    r"does not end the response": "does not complete it",
}
_ANY = rf"\b(?:{'|'.join(ODD)})\b".replace(" ", r"\s+")
PATTERN = re.compile(_ANY, re.IGNORECASE)
HINT = re.compile(_ANY)  # in a text without capitals it finds no less, and several times as fast
GENERATED = {"docs/cli.md", "docs/transcript.md"}
TEXTS = {".md", ".yaml", ".yml", ".toml", ".sh", ".sql"}
Text = tuple[int, str]


def files() -> list[str]:
    """The tracked files that hold words of ours: no fixtures, no pages made from `--help` or a run."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    kept = {name for name in listed.split("\0") if not name.startswith("tests/fixtures/")} - GENERATED
    return sorted(name for name in kept if Path(name).suffix in TEXTS | {".py"} and (ROOT / name).is_file())


def texts(name: str, source: str) -> Iterator[Text]:
    """Line and text of everything in a file that is meant for people; of a test, not what it passes or expects; of an
    eval, not what its user types."""
    if not name.endswith(".py"):
        yield 1, re.sub(r"^  prompt: .*$", "", source, flags=re.MULTILINE) if name.startswith("evals/") else source
        return
    if any("#" in line and HINT.search(line.lower()) for line in source.splitlines()):  # to tell tokens takes long
        for token in tokenize.generate_tokens(StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    tree = ast.parse(source)
    if name.startswith("tests/"):
        yield from _docstrings(tree)
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:  # no key, no name
            yield node.lineno, node.value


def _docstrings(tree: ast.Module) -> Iterator[Text]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and ast.get_docstring(node):
                yield first.lineno, str(first.value.value)


def odd(name: str, source: str) -> list[str]:
    """Each odd phrase of a file as `line: phrase`."""
    if not HINT.search(source.lower()):
        return []
    return [
        f"{line + text.count(chr(10), 0, found.start())}: {' '.join(found[0].split())}"
        for line, text in texts(name, source)
        for found in PATTERN.finditer(text)
    ]


def test_no_odd_phrase() -> None:
    """No document, docstring, comment or message has a phrase of the list."""
    found = {name: odd(name, (ROOT / name).read_text("utf-8")) for name in files()}
    assert {name: phrases for name, phrases in found.items() if phrases} == {}


@pytest.mark.parametrize(
    ("name", "source", "found"),
    [
        ("a.md", "It is\ngone\non.", ["2: gone on"]),
        ("scripts/a.py", '"""Heed it."""\nx = 1  # begun\n', ["2: begun", "1: Heed"]),
        ("scripts/a.py", 'raise ValueError("the wait is begun")', ["1: begun"]),
        ("tests/test_a.py", 'def test_a() -> None:\n    """Afresh."""\n    assert "begun"\n', ["2: Afresh"]),
        ("a.md", "Command, amendment, beginning, comment.", []),
    ],
)
def test_an_odd_phrase_would_be_found(name: str, source: str, found: list[str]) -> None:
    """Phrases are found in documents, docstrings, comments and messages, but not in what a test expects."""
    assert odd(name, source) == found
