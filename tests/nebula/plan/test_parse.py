"""Nebula and phase files: read, written, and read again."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faber.nebula.plan.nebula_files import load_nebula
from faber.nebula.plan.parse import parse_nebula
from faber.nebula.plan.phase_file import MAX_FILE, parse_phase, write_phase
from faber.nebula.plan.plan_errors import InvalidNebula
from faber.nebula.plan.problems import NebulaProblem
from faber.nebula.plan.specs import Execution, Filter, PhaseSpec
from faber.nebula.plan.toml_text import toml_text
from faber.text.safe_text import encodable
from support.examples import examples

EXAMPLE = Path(__file__).parents[3] / "examples/nebula"
FULL = """\
[nebula]
name = "n"
description = "d"
[defaults]
type = "bug"
priority = 1
labels = ["a", "b"]
assignee = "x"
[execution]
max_workers = 3
max_review_cycles = 7
max_budget_usd = 10
model = "m"
gate = "review"
agent_tools = ["Read"]
setup = ["make", "deps"]
turn_timeout = 7
setup_timeout = 5
isolation = "worktree"
healing = true
healing_max_attempts = 2
healing_budget_reserve = 1.5
[context]
repo = "github.com/a/b"
working_dir = "sub"
goals = ["g"]
constraints = ["c"]
[dependencies]
requires_nebulae = ["other"]
requires_beads = ["b-1"]
[[filter]]
name = "build"
command = "make all"
[[filter]]
name = "test"
command = ["make", "test"]
timeout = 9
"""


def phase(text: str) -> tuple[PhaseSpec | None, list[NebulaProblem]]:
    """A phase file's spec, and what is wrong with it."""
    problems: list[NebulaProblem] = []
    return parse_phase("p.md", text, problems)[0], problems


def test_every_field_of_nebula_toml_is_read() -> None:
    """Each key of the format arrives in its field, and nothing is wrong."""
    parsed = parse_nebula("dir", {"nebula.toml": FULL})
    assert parsed.problems == []
    nebula = parsed.nebula
    assert (nebula.name, nebula.description, nebula.directory, dict(nebula.extra)) == ("n", "d", "dir", {})
    assert nebula.execution == Execution(
        max_workers=3,
        max_review_cycles=7,
        max_budget_usd=10.0,
        model="m",
        gate="review",
        agent_tools=("Read",),
        setup=("make", "deps"),
        turn_timeout=7,
        setup_timeout=5,
        isolation="worktree",
        healing=True,
        healing_max_attempts=2,
        healing_budget_reserve=1.5,
    )
    assert (nebula.defaults.type, nebula.defaults.priority, nebula.defaults.labels) == ("bug", 1, ("a", "b"))
    assert (nebula.context.repo, nebula.context.working_dir) == ("github.com/a/b", "sub")
    assert (nebula.context.goals, nebula.context.constraints) == (("g",), ("c",))
    assert nebula.dependencies.requires_nebulae == ("other",)
    assert nebula.filters == (Filter("build", "make all"), Filter("test", ("make", "test"), 9))


def test_defaults_are_those_of_the_format() -> None:
    """Without settings: five cycles, no healing, one attempt, trust, worktrees; a fifth of a budget is reserved."""
    execution = parse_nebula("d", {"nebula.toml": '[nebula]\nname = "n"'}).nebula.execution
    assert (execution.max_review_cycles, execution.gate, execution.isolation) == (5, "trust", "worktree")
    assert (execution.healing, execution.healing_max_attempts) == (False, 1)
    assert (execution.max_budget_usd, execution.healing_budget_reserve) == (None, None)
    with_budget = parse_nebula("d", {"nebula.toml": '[nebula]\nname = "n"\n[execution]\nmax_budget_usd = 10'})
    assert with_budget.nebula.execution.healing_budget_reserve == 2.0
    alone = parse_nebula("d", {"nebula.toml": '[nebula]\nname = "n"\n[execution]\nisolation = "tree"'})
    assert alone.nebula.execution.max_workers == 1


def test_a_phase_overrides_the_nebulas_settings() -> None:
    """What a phase says is in effect for it; what it does not say is the nebula's; 0 says nothing."""
    own = '+++\nid = "p"\ntitle = "t"\npriority = 0\nmax_review_cycles = 2\nmodel = "o"\ngate = "watch"\n+++\nx'
    plain = '+++\nid = "q"\ntitle = "t"\nmax_review_cycles = 0\nmax_budget_usd = 0\nmodel = ""\ngate = ""\n+++\nx'
    parsed = parse_nebula("d", {"nebula.toml": FULL, "p.md": own, "q.md": plain})
    assert parsed.problems == []
    first, second = (parsed.nebula.settings(spec) for spec in parsed.nebula.phases)
    assert (first.priority, first.max_review_cycles, first.model, first.gate) == (0, 2, "o", "watch")
    assert (second.priority, second.max_review_cycles, second.model, second.gate) == (1, 7, "m", "review")
    assert (second.type, second.labels, second.max_budget_usd) == ("bug", ("a", "b"), None)


@pytest.mark.parametrize("value", ["'manual'", "true", "['a']", "3"])
def test_what_another_tool_means_by_review_is_kept(value: str) -> None:
    """A `review` that is not faber's is an unknown key: the phase is reviewed, and the key survives writing."""
    spec, problems = phase(f'+++\nid = "p"\ntitle = "t"\nreview = {value}\n+++\nx')
    assert [problem.category for problem in problems] == ["unknown_key"]
    assert (spec.review, list(spec.extra)) == (None, ["review"])
    assert phase(write_phase(spec))[0] == spec


def test_unknown_keys_are_kept_and_said() -> None:
    """A key of another tool is INFO, on its line, and stands in `extra`, of phases too."""
    manifest = '[nebula]\nname = "n"\n[execution]\nhail_timeout = "5m"\n[other]\na = 1\n'
    manifest += '[[filter]]\nname = "f"\ncommand = "x"\nonly = "go"\n'
    text = '+++\nid = "p"\ntitle = "t"\ndecomposed = true\ndue = 2026-01-02\n+++\nx'
    parsed = parse_nebula("d", {"nebula.toml": manifest, "p.md": text})
    assert [(p.category, p.severity.value, p.file, p.line) for p in parsed.problems] == [
        ("unknown_key", "INFO", "nebula.toml", 10),
        ("unknown_key", "INFO", "nebula.toml", 4),
        ("unknown_key", "INFO", "nebula.toml", 5),
        ("unknown_key", "INFO", "p.md", 4),
        ("unknown_key", "INFO", "p.md", 5),
    ]
    assert parsed.nebula.filters == (Filter("f", "x", extra={"only": "go"}),)
    assert parsed.nebula.extra == {"execution": {"hail_timeout": "5m"}, "other": {"a": 1}}
    assert parsed.nebula.phases[0].extra == {"decomposed": True, "due": "2026-01-02"}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_endings_and_a_byte_order_mark_do_not_count(tmp_path: Path, end: str, mark: str) -> None:
    """A file saved by another editor reads the same, with the same lines."""
    lines = ["+++", 'id = "p"', 'title = "t"', "priority = -1", "+++", "", "one", "two", ""]
    (tmp_path / "nebula.toml").write_bytes((mark + '[nebula]\nname = "n"\n'.replace("\n", end)).encode())
    (tmp_path / "p.md").write_bytes((mark + end.join(lines)).encode())
    parsed = load_nebula(str(tmp_path))
    assert [(p.category, p.file, p.line) for p in parsed.problems] == [("bounds", "p.md", 4)]
    assert parsed.nebula.phases[0].body == "one\ntwo"


def test_a_directory_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    """READMEs, hidden files and other files are no phases; links, huge and binary files are problems."""
    (tmp_path / "nebula.toml").write_text('[nebula]\nname = "n"')
    (tmp_path / "a.md").write_text('+++\nid = "a"\ntitle = "t"\n+++\nx')
    for name in ("README.md", ".hidden.md", "notes.txt", "nebula.state.toml"):
        (tmp_path / name).write_text("no header")
    (tmp_path / "link.md").symlink_to(tmp_path / "a.md")
    (tmp_path / "big.md").write_text("+" * (MAX_FILE + 1))
    (tmp_path / "binary.md").write_bytes(b"+++\n\xff\n+++\n")
    (tmp_path / "dir.md").mkdir()
    parsed = load_nebula(str(tmp_path))
    assert [spec.id for spec in parsed.nebula.phases] == ["a"]
    found = [(p.category, p.file) for p in parsed.problems]
    assert found == [("unreadable", f"{name}.md") for name in ("big", "binary", "dir", "link")]


def test_a_directory_without_a_nebula(tmp_path: Path) -> None:
    """No nebula.toml is one problem; no directory is an error."""
    assert [p.category for p in load_nebula(str(tmp_path)).problems] == ["unreadable"]
    with pytest.raises(InvalidNebula):
        load_nebula(str(tmp_path / "none"))


def test_the_seeds_header_is_read() -> None:
    """A phase file with every key that the format lists is read whole."""
    text = """+++
id = "partial-completion"
title = "Carry forward partial work"
type = "feature"
priority = 2
depends_on = ["dag-insertion"]
blocks = ["later"]
labels = ["auto-healing", "reliability"]
assignee = "someone"
scope = ["internal/nebula/healing.go", "internal/nebula/worker.go"]
allow_scope_overlap = true
max_review_cycles = 3
max_budget_usd = 1.5
model = "m"
gate = "approve"
+++

## Problem

+++ is only a fence once.
"""
    spec, problems = phase(text)
    assert problems == []
    assert spec == PhaseSpec(
        id="partial-completion",
        title="Carry forward partial work",
        body="## Problem\n\n+++ is only a fence once.",
        type="feature",
        priority=2,
        depends_on=("dag-insertion",),
        blocks=("later",),
        labels=("auto-healing", "reliability"),
        assignee="someone",
        scope=("internal/nebula/healing.go", "internal/nebula/worker.go"),
        allow_scope_overlap=True,
        max_review_cycles=3,
        max_budget_usd=1.5,
        model="m",
        gate="approve",
    )


words = st.text(max_size=12)
maybe = st.none() | words.filter(bool)
names = st.lists(words, max_size=3, unique_by=encodable).map(tuple)
json_values = st.recursive(
    st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
specs = st.builds(
    PhaseSpec,
    id=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,20}", fullmatch=True),
    title=words.filter(lambda text: bool(text.strip())),
    body=words,
    type=maybe,
    priority=st.none() | st.integers(0, 99),
    depends_on=names,
    blocks=names,
    labels=st.none() | st.lists(words, max_size=3).map(tuple),
    assignee=st.none() | words,
    scope=names,
    allow_scope_overlap=st.booleans(),
    max_review_cycles=st.none() | st.integers(1, 100),
    max_budget_usd=st.none() | st.floats(0.01, 1000),
    model=maybe,
    gate=st.sampled_from([None, "trust", "review", "approve", "watch"]),
    review=st.sampled_from([None, "agent", "none"]),
    extra=st.dictionaries(st.text("abxyz ", min_size=1, max_size=5), json_values, max_size=2),
)


def held(value: Any) -> Any:
    """A value as a file can hold it: without lone surrogates, blanks around titles and bodies as they are."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, (list, tuple)):
        return type(value)(held(item) for item in value)
    if isinstance(value, dict):
        return {held(key): held(item) for key, item in value.items()}
    return value


@settings(max_examples=examples(25, 100))
@given(specs)
def test_what_is_written_is_read(spec: PhaseSpec) -> None:
    """Any phase written as a file is read as the same phase, and writing it again gives the same text."""
    text = write_phase(spec)
    back, problems = phase(text)
    assert {problem.category for problem in problems} <= {"unknown_key", "empty"}
    assert back == replace(
        spec,
        title=encodable(spec.title).strip(),
        body=encodable(spec.body.strip()).replace("\r\n", "\n").strip(),
        **{name: held(getattr(spec, name)) for name in ("type", "depends_on", "blocks", "labels", "assignee", "scope")},
        model=held(spec.model),
        extra=held(spec.extra),
    )
    assert write_phase(back) == write_phase(parse_phase("p.md", write_phase(back), [])[0] or spec)


@given(st.text(st.sampled_from('+\nid="p[]#{}\\ \r\ufeff'), max_size=60))
def test_any_text_is_a_phase_or_a_problem(text: str) -> None:
    """No text is a traceback: without a usable phase there is an error."""
    spec, problems = phase(text)
    assert spec is not None or any(problem.severity == "ERROR" for problem in problems)


@given(st.text(st.sampled_from('[]nebula="x\n.execution1{}#'), max_size=60))
def test_any_text_is_a_manifest_or_a_problem(text: str) -> None:
    """No nebula.toml is a traceback."""
    parse_nebula("d", {"nebula.toml": text})


@settings(max_examples=examples(25, 100))
@given(st.dictionaries(st.sampled_from(list(PhaseSpec.__dataclass_fields__)), json_values, max_size=4))
def test_any_value_in_any_place(header: dict[str, Any]) -> None:
    """Any value under a key is accepted or reported as wrong, without a traceback."""
    spec, problems = phase(f"+++\n{toml_text(held(header))}+++\nx")
    assert spec is not None or problems


def test_the_example_is_valid_in_form() -> None:
    """The example has six phases, and nothing is wrong with a file of it."""
    parsed = load_nebula(str(EXAMPLE))
    assert parsed.problems == []
    assert len(parsed.nebula.phases) == 6
