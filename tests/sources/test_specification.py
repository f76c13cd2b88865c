"""The specification: where it may lie, what is read from it, and that nothing in it stops the context."""

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faber.errors import Severity
from faber.sources.specification import load, parse
from support.examples import examples

# A hundred thousand of these lines are a text that a person may well have pasted.
MANY = (
    "word word\n",
    "# plan\n",
    "# Phase 1\n- [ ] a\n",
    "# acceptance criteria\n- [ ] a\n",
    "# files\n- `a.b`\n",
)
SPEC = """\
---
title: Cross-session resume
type: feature
status: draft
created: 2025-12-06
---
# SPEC-258: Resume

## 1. Overview
Runs survive.

## 2.1 🎯 *Goals*:
- keep every event

## Functional Requirements
### FR-1
Sessions resume.

## ✅ Acceptance Criteria
- [ ] resumes after a crash
- [x] lists sessions
  - [ ] with their dates
  - a detail

## Technical Approach
One log.
```sh
## Goals
```

## Files to Create/Modify
| Change | File |
|---|---|
| the reducer | `src/reduce.py` |

- `Makefile`, `src/a.py`: new targets
- **Modify** `src/b.py:10-20` - the lock
- [src/c.py](src/c.py) — the cache
### 3. `src/d.py`

## Implementation Plan
### Phase 1: Core
1. [x] one
2. [ ] two
#### Acceptance criteria
- [ ] phase one is reviewed
### Phase 2: Rest
- a
  - b
"""


def put(root: Path, name: str = "specs/X.md", text: str = SPEC) -> Path:
    """A specification below `root`."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def path_of(root: Path, spec_path: str) -> str:
    """The path of the specification that `load` finds, without notices."""
    spec, notices = load(root, spec_path)
    assert (spec is not None, notices) == (True, [])
    return str(spec and spec["path"])


def only_notice(root: Path, spec_path: str) -> tuple[str, Severity, str]:
    """What `load` says of a path that it refuses."""
    spec, notices = load(root, spec_path)
    assert spec is None
    (notice,) = notices
    return notice.code, notice.severity, notice.message


class TestWhere:
    @pytest.mark.parametrize("spelling", ["specs/X.md", "/specs/X.md", "./specs/../specs/X.md", "//specs/X.md"])
    def test_found(self, tmp_path: Path, spelling: str) -> None:
        """A path is taken below the root, with a leading slash or without."""
        put(tmp_path)
        assert path_of(tmp_path, spelling) == "specs/X.md"

    def test_absolute(self, tmp_path: Path) -> None:
        """An absolute path inside the repository is taken as it is, and told relative to the root."""
        path = put(tmp_path)
        spec, notices = load(tmp_path, str(path))
        assert spec is not None
        assert (spec["path"], notices) == ("specs/X.md", [])

    def test_root_behind_a_link(self, tmp_path: Path) -> None:
        """A root that is reached through a link holds its own files."""
        put(tmp_path / "real")
        (tmp_path / "link").symlink_to("real")
        assert path_of(tmp_path / "link", "specs/X.md") == "specs/X.md"

    def test_link_inside(self, tmp_path: Path) -> None:
        """A link to another file of the repository is followed."""
        put(tmp_path)
        (tmp_path / "current.md").symlink_to("specs/X.md")
        assert path_of(tmp_path, "current.md") == "specs/X.md"

    @pytest.mark.parametrize("spelling", ["specs/X.md", "/specs/X.md", "a/b/c.md", "x" * 300, "specs/" + "y/" * 3000])
    def test_absent(self, tmp_path: Path, spelling: str) -> None:
        """What is not there may not have been created yet."""
        code, severity, message = only_notice(tmp_path, spelling)
        assert (code, severity) == ("spec_path_invalid", Severity.WARNING)
        assert "may not have been created yet" in message

    @pytest.mark.parametrize(
        "spelling",
        ["../secret.md", "specs/../../secret.md", "/proc/self/environ", "/etc/passwd", "../absent.md", "link.md"],
    )
    def test_outside(self, tmp_path: Path, spelling: str) -> None:
        """A path that leaves the repository is refused, whether it is there or not, by dots or by a link."""
        root = tmp_path / "root"
        root.mkdir()
        put(tmp_path, "secret.md")
        (root / "link.md").symlink_to("../secret.md")
        code, severity, message = only_notice(root, spelling)
        assert (code, severity) == ("spec_path_invalid", Severity.WARNING)
        assert "outside the repository" in message

    def test_outside_by_a_directory(self, tmp_path: Path) -> None:
        """A link to a directory outside does not open a way out, nor does a root whose name begins the same."""
        root = tmp_path / "root"
        root.mkdir()
        put(tmp_path, "root-other/X.md")
        (root / "specs").symlink_to("../root-other")
        assert "outside the repository" in only_notice(root, "specs/X.md")[2]

    @pytest.mark.parametrize("spelling", ["", " ", "a\0b", "a\nb", "\x1b]52;c;x\x07", "a\u202eb", "\ud800"])
    def test_not_a_path(self, tmp_path: Path, spelling: str) -> None:
        """A path with invisible characters is refused, and its message is inert."""
        code, _, message = only_notice(tmp_path, spelling)
        assert code == "spec_path_invalid"
        assert message.isprintable()

    def test_git_directory(self, tmp_path: Path) -> None:
        """Nothing inside .git is a specification: its configuration may hold credentials."""
        put(tmp_path, ".git/config")
        assert ".git" in only_notice(tmp_path, ".git/config")[2]


class TestUnreadable:
    def test_kinds(self, tmp_path: Path) -> None:
        """A directory, a pipe, a device and a circle of links are refused at once, as errors."""
        (tmp_path / "directory").mkdir()
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        for name in ("directory", ".", "pipe", "a"):
            assert only_notice(tmp_path, name)[:2] == ("spec_unreadable", Severity.ERROR)

    def test_device(self) -> None:
        """A device is not read even where the root holds it."""
        assert only_notice(Path("/dev"), "zero")[:2] == ("spec_unreadable", Severity.ERROR)

    def test_content(self, tmp_path: Path) -> None:
        """Bytes that are not UTF-8, and a file past 2 MB, are errors that say so."""
        (tmp_path / "latin.md").write_bytes(b"caf\xe9")
        (tmp_path / "large.md").write_bytes(b"x" * 2_000_001)
        assert "UTF-8" in only_notice_of_load(tmp_path, "latin.md")
        assert "larger than 2000 kB" in only_notice(tmp_path, "large.md")[2]

    def test_permission(self, tmp_path: Path) -> None:
        """A file that another user may not read is an error: someone must decide."""
        path = put(tmp_path)
        path.chmod(0)
        for directory in (tmp_path, *tmp_path.parents[:2]):
            directory.chmod(0o755)
        code, severity, message = as_nobody(lambda: only_notice(tmp_path, "specs/X.md"))
        assert (code, severity) == ("spec_unreadable", "ERROR")
        assert "Permission denied" in message

    def test_directory_permission(self, tmp_path: Path) -> None:
        """A file in a directory that may not be entered is there and unreadable, not absent."""
        put(tmp_path).parent.chmod(0)
        for directory in (tmp_path, *tmp_path.parents[:2]):
            directory.chmod(0o755)
        assert as_nobody(lambda: only_notice(tmp_path, "specs/X.md"))[0] == "spec_unreadable"
        (tmp_path / "specs").chmod(0o755)


def only_notice_of_load(root: Path, spec_path: str) -> str:
    """What is wrong with a file that only reading can tell."""
    spec, (notice,) = load(root, spec_path)
    assert spec is None
    assert notice.code == "spec_unreadable"
    return notice.message


def as_nobody(compute: Any) -> Any:
    """What `compute` gives in a child that is not root, through JSON."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            os.write(writing, json.dumps(compute()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer)


class TestParse:
    def test_everything(self) -> None:
        """All that the protocol extracts is found by its headings, whatever their numbering and emoji."""
        spec, notices = parse(SPEC)
        assert notices == []
        assert spec["title"] == "Cross-session resume"
        assert (spec["type"], spec["status"]) == ("feature", "draft")
        assert spec["front_matter"]["created"] == "2025-12-06"
        assert spec["summary"] == "Runs survive."
        assert spec["goals"] == "- keep every event"
        assert spec["functional_requirements"] == "### FR-1\nSessions resume."
        assert spec["technical_approach"] == "One log.\n```sh\n## Goals\n```"

    def test_criteria(self) -> None:
        """Boxes are criteria at any depth and in any section of the name; bullets under them are details."""
        assert parse(SPEC)[0]["acceptance_criteria"] == [
            {"text": "resumes after a crash", "done": False},
            {"text": "lists sessions", "done": True},
            {"text": "with their dates", "done": False},
            {"text": "phase one is reviewed", "done": False},
        ]

    def test_files(self) -> None:
        """Files are read from tables, lists and subheadings, without line numbers and links."""
        assert parse(SPEC)[0]["files_to_modify"] == [
            {"path": "src/reduce.py", "description": "the reducer"},
            {"path": "Makefile", "description": "new targets"},
            {"path": "src/a.py", "description": "new targets"},
            {"path": "src/b.py", "description": "the lock"},
            {"path": "src/c.py", "description": "the cache"},
            {"path": "src/d.py", "description": None},
        ]

    def test_phases(self) -> None:
        """Phases have their tasks and how many are done; criteria inside a phase are not tasks."""
        assert parse(SPEC)[0]["phases"] == [
            {
                "title": "Phase 1: Core",
                "tasks": [{"text": "one", "done": True}, {"text": "two", "done": False}],
                "done": 1,
                "total": 2,
            },
            {"title": "Phase 2: Rest", "tasks": [{"text": "a", "done": False}], "done": 0, "total": 1},
        ]

    @pytest.mark.parametrize(
        ("key", "heading"),
        [
            ("summary", "## SUMMARY"),
            ("summary", "### 1.2 Executive Summary"),
            ("summary", "Overview\n--------"),
            ("goals", "## II. Objectives"),
            ("goals", "## **Goals & Non-Goals**"),
            ("goals", "## 1) Goals (draft)"),
            ("goals", "## ✅ 1. Goals"),
            ("functional_requirements", "## Requirements"),
            ("functional_requirements", "## 📋 functional-requirements"),
            ("technical_approach", "## Technical Design"),
            ("technical_approach", "## Implementation Approach"),
            ("technical_approach", "## Architecture ##"),
        ],
    )
    def test_headings(self, key: str, heading: str) -> None:
        """Each section is known by its usual names."""
        assert parse(f"# T\n\n{heading}\n\nthe text\n\n# Z\n")[0][key] == "the text"

    @pytest.mark.parametrize("heading", ["Success criteria", "Definition of Done", "3. Acceptance criteria:"])
    def test_criteria_headings(self, heading: str) -> None:
        """Acceptance criteria have synonyms, and may be plain bullets or paragraphs."""
        expected = [{"text": "it works", "done": False}]
        assert parse(f"## {heading}\n* it works\n")[0]["acceptance_criteria"] == expected
        assert parse(f"## {heading}\nit\nworks\n")[0]["acceptance_criteria"] == expected

    @pytest.mark.parametrize("heading", ["Files", "Files to change", "Affected files", "New Files", "File Changes"])
    def test_files_headings(self, heading: str) -> None:
        """Files have synonyms, and a code block may list them."""
        spec, _ = parse(f"## {heading}\n```\nsrc/a.py\nsrc/b.py  # the lock\nnot a path\n```\n")
        assert [entry["path"] for entry in spec["files_to_modify"]] == ["src/a.py", "src/b.py"]

    @pytest.mark.parametrize(
        "text",
        [
            "## Implementation Phases\n### First\n- [x] a\n",
            "## Tasks\n- [x] a\n",
            "## Implementation Plan\n\n## Phase 1: x\n- [x] a\n",
            "## Phase 1: x\n- [x] a\n",
            "# Stage 2 — x\n1. [X] a\n",
        ],
    )
    def test_phase_shapes(self, text: str) -> None:
        """Phases may be subsections of a plan, its one list, or headings of their own."""
        (phase,) = parse(text)[0]["phases"]
        assert (phase["tasks"], phase["done"], phase["total"]) == ([{"text": "a", "done": True}], 1, 1)

    def test_non_functional_is_not_functional(self) -> None:
        """Non-functional requirements are not taken for functional ones."""
        assert parse("## Non-Functional Requirements\nfast\n")[0]["functional_requirements"] is None

    def test_hidden_headings(self) -> None:
        """Headings in code, quotes, lists and HTML comments are not sections."""
        text = "# T\n~~~\n# Goals\n~~~\n> # Goals\n> x\n\n- # Goals\n\n  x\n\n<!--\n# Goals\n-->\nx\n"
        assert parse(text)[0]["goals"] is None

    def test_nothing(self) -> None:
        """An empty specification has every key, with nothing in it."""
        spec, notices = parse("")
        assert notices == []
        assert not any(spec.values())
        assert set(spec) == set(parse(SPEC)[0])

    @pytest.mark.parametrize("ending", ["\r\n", "\r"])
    def test_line_endings(self, ending: str) -> None:
        """The same is read whatever ends the lines."""
        assert parse(SPEC.replace("\n", ending)) == parse(SPEC)

    def test_title_and_fields_of_the_body(self) -> None:
        """Without front matter the first h1 is the title, and bold fields give type and status."""
        spec, _ = parse("# Resume\r\n\r\n**Type**: Bug\r\n**Status:** Draft\r\n\r\n## X\r\n**Type**: no\r\n")
        assert (spec["title"], spec["type"], spec["status"]) == ("Resume", "Bug", "Draft")

    def test_toml(self) -> None:
        """TOML front matter is read like YAML's."""
        spec, _ = parse('+++\ntitle = "T"\nday = 2025-01-02\n+++\n## Goals\ng\n')
        assert (spec["title"], spec["front_matter"]["day"], spec["goals"]) == ("T", "2025-01-02", "g")

    @pytest.mark.parametrize(
        "front",
        [
            "---\ntitle: [\n---",
            "---\n- a\n---",
            "---\ntitle: !!python/object/apply:os.system [touch /tmp/owned]\n---",
            "---\na: &a [1]\nb: *a\n---",
            "---\na: 1\na: 2\n---",
            "---\na: .nan\n---",
            "---\nday: 2025-13-45\n---",
            "---\na: " + "[" * 100_000 + "\n---",
            "---\na: 1" + ":1" * 30_000 + "\n---",
            "---\na: 0x" + "f" * 100_000 + "\n---",
            "---\na: " + "x " * 200_000 + "\n---",
            "+++\ntitle = \n+++",
            "+++\na = " + "[" * 100_000 + "\n+++",
            "+++\na" + ".a" * 100_000 + " = 1\n+++",
            "+++\na" + ' ."\\""' * 40_000 + " = 1\n+++",
            "+++\na = nan\n+++",
        ],
        ids=lambda front: re.sub(r"\s", " ", front[4:30]),
    )
    def test_bad_front_matter(self, front: str) -> None:
        """Front matter that is malformed, names an object or explodes is a warning; the body is read."""
        started = time.monotonic()
        spec, (notice,) = parse(f"{front}\n# T\n## Goals\ng\n")
        assert (notice.code, notice.severity) == ("spec_front_matter_invalid", Severity.WARNING)
        assert (spec["title"], spec["goals"], spec["front_matter"]) == ("T", "g", {})
        assert time.monotonic() - started < 60  # not for ever

    @settings(max_examples=examples(25, 150), deadline=None)
    @given(
        st.lists(
            st.sampled_from(
                [
                    *SPEC.splitlines(),
                    "---",
                    "+++",
                    "```",
                    "> q",
                    "    code",
                    "- [ ] x",
                    "| a | b |",
                    "|-|-|",
                    "<!--",
                    "\t",
                ]
            )
            | st.text(max_size=20),
            max_size=40,
        )
    )
    def test_any_text(self, lines: list[str]) -> None:
        """Any text whatever is parsed into JSON whose tasks add up."""
        spec, notices = parse("\n".join(lines))
        assert json.loads(json.dumps(spec)) == spec
        assert {notice.code for notice in notices} <= {"spec_front_matter_invalid"}
        for phase in spec["phases"]:
            assert phase["total"] == len(phase["tasks"]) >= phase["done"]

    @pytest.mark.parametrize("part", MANY)
    def test_many_lines(self, part: str) -> None:
        """Twenty times the lines take about twenty times as long, not four hundred times."""

        def seconds(count: int) -> float:
            started = time.thread_time()  # of the processor's seconds, none is another process's
            parse(part * count)
            return time.thread_time() - started

        seconds(1)  # imports the parser
        many = examples(2_000, 4_000)
        few = min(seconds(many // 20) for _ in range(3))
        assert any(seconds(many) < 40 * few for _ in range(3))

    @pytest.mark.parametrize(
        "text",
        [
            *(pytest.param(part * 50_000, marks=pytest.mark.full) for part in MANY),
            "".join("  " * i + "- a\n" for i in range(1400)),
            ">" * 100_000 + " a\n",
            "# files\n- " + "`" * 1_000_000,
            "# files\n- " + "[" * 1_000_000,
            "# " + "[" * 1_000_000,
            "Type: a" + " " * 1_000_000 + "b\n",
            ("---" + " " * 10_000 + "x\n") * 60,
        ],
        ids=lambda text: repr(text[:20]),
    )
    def test_pathological(self, text: str) -> None:
        """A hundred thousand lines, deep nesting and runs of markup neither hang nor overflow the stack."""
        started = time.thread_time()
        parse(text)
        assert time.thread_time() - started < 30


class TestLoad:
    def test_whole(self, tmp_path: Path) -> None:
        """The whole text is there beside what was extracted from it."""
        put(tmp_path, text="\ufeff" + SPEC)
        spec, notices = load(tmp_path, "specs/X.md")
        assert spec == {"path": "specs/X.md", "content": SPEC, **parse(SPEC)[0]}
        assert notices == []

    def test_memo(self, tmp_path: Path) -> None:
        """A memo gets the whole text, and what it gave through JSON is as good as new."""
        put(tmp_path, text="---\n[\n---\n# T\n")
        kept: dict[tuple[str, str], str] = {}

        def memo(name: str, text: str, compute: Any) -> Any:
            if (name, text) not in kept:
                kept[name, text] = json.dumps(compute(text))
            return json.loads(kept[name, text])

        first = load(tmp_path, "specs/X.md", memo=memo)
        assert first == load(tmp_path, "specs/X.md", memo=memo) == load(tmp_path, "specs/X.md")
        assert len(kept) == 1
        assert first[1][0].source == "specs/X.md"

    def test_warm_load_imports_no_parser(self, tmp_path: Path) -> None:
        """With a memo that remembers, neither the Markdown nor the YAML parser is imported."""
        import subprocess
        import sys

        put(tmp_path)
        script = (
            "import sys; from pathlib import Path; from faber.sources.specification import load\n"
            "load(Path(sys.argv[1]), 'specs/X.md', memo=lambda *_: {'spec': {}, 'notices': []})\n"
            "assert not {'markdown_it', 'yaml', 'tomllib', 'subprocess', 'faber.sources.sections'} & set(sys.modules)"
        )
        package = str(Path(__file__).parents[2] / "scripts")
        subprocess.run([sys.executable, "-c", script, tmp_path], check=True, env={"PYTHONPATH": package})
