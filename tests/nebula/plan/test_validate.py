"""Everything that is wrong with a nebula is said at once, with its line."""

import re
from pathlib import Path

import pytest

from faber.errors import Severity
from faber.nebula.plan.nebula_files import load_nebula
from faber.nebula.plan.parse import parse_nebula
from faber.nebula.plan.plan_errors import InvalidNebula
from faber.nebula.plan.problems import NebulaProblem, is_valid, require_valid
from faber.nebula.plan.validate import MAX_OVERLAPS, Programs, program_of, validate

ROOT = Path(__file__).parents[3]
# The first cells of the table of categories.
TABLE = (ROOT / "docs/nebula.md").read_text("utf-8").partition("| category | problem |")[2].split("\n\n")[0]
CATEGORIES = {name for row in TABLE.splitlines() for name in re.findall(r"`([a-z_]+)`", row.partition(" | ")[0])}
MANIFEST = '[nebula]\nname = "n"\n'
CHECKED = MANIFEST + '[[filter]]\nname = "f"\ncommand = "make"\n'
MACHINE = Programs(lambda name: name in ("make", "python3"), lambda path: path == "bin/check")


def check(manifest: str = CHECKED, **phases: str) -> list[NebulaProblem]:
    """The problems of a nebula whose phase files have these headers, each beginning on line 2."""
    texts = {f"{name}.md": f"+++\n{header}\n+++\nDo it.\n" for name, header in phases.items()}
    return validate(parse_nebula("d", {"nebula.toml": manifest, **texts}), MACHINE)


def phase(name: str, *lines: str) -> str:
    """A header with an id, a title and more lines."""
    return "\n".join([f'id = "{name}"', 'title = "t"', *lines])


A = phase("a")


@pytest.mark.parametrize(
    ("manifest", "phases", "category", "file", "line"),
    [
        ("[nebula]\n", {"a": A}, "missing_key", "nebula.toml", 1),
        ("", {"a": A}, "missing_key", "nebula.toml", 1),
        ("[nebula]\nname = 3\n", {"a": A}, "wrong_type", "nebula.toml", 2),
        ('[nebula]\nname = "n\n', {"a": A}, "bad_toml", "nebula.toml", 2),
        ('[nebula]\nname = "n"\nname = "m"\n', {"a": A}, "bad_toml", "nebula.toml", 3),
        ("[nebula]\nname =", {"a": A}, "bad_toml", "nebula.toml", 2),
        ("nebula = 1\n", {"a": A}, "wrong_type", "nebula.toml", 1),
        (MANIFEST + "[execution]\nmax_workers = -1\n", {"a": A}, "bounds", "nebula.toml", 4),
        (MANIFEST + "[execution]\nmax_review_cycles = 101\n", {"a": A}, "bounds", "nebula.toml", 4),
        (MANIFEST + "[execution]\nmax_budget_usd = -0.5\n", {"a": A}, "bounds", "nebula.toml", 4),
        (MANIFEST + "[execution]\nmax_budget_usd = true\n", {"a": A}, "wrong_type", "nebula.toml", 4),
        (MANIFEST + "[execution]\nmax_budget_usd = nan\n", {"a": A}, "bad_toml", "nebula.toml", 1),
        (MANIFEST + '[execution]\ngate = "always"\n', {"a": A}, "unknown_gate", "nebula.toml", 4),
        (MANIFEST + '[execution]\nisolation = "jail"\n', {"a": A}, "unknown_isolation", "nebula.toml", 4),
        (MANIFEST + '[execution]\nisolation = "tree"\nmax_workers = 2\n', {"a": A}, "bounds", "nebula.toml", 5),
        (
            MANIFEST + "[execution]\nmax_budget_usd = 1\nhealing_budget_reserve = 1\n",
            {"a": A},
            "bounds",
            "nebula.toml",
            5,
        ),
        (MANIFEST + '[execution]\nsetup = "nosuch --now"\n', {"a": A}, "missing_program", "nebula.toml", 4),
        (MANIFEST + "[context]\ngoals = [\n'g',\n4]\n", {"a": A}, "wrong_type", "nebula.toml", 6),
        (MANIFEST + "[context]\nworking_dir = '../x'\n", {"a": A}, "unsafe_path", "nebula.toml", 4),
        (MANIFEST + "[[filter]]\ncommand = 'make'\n", {"a": A}, "missing_id", "nebula.toml", 3),
        (MANIFEST + "[[filter]]\nname = 'f'\n", {"a": A}, "missing_key", "nebula.toml", 3),
        (MANIFEST + "[[filter]]\nname = 'f'\ncommand = []\n", {"a": A}, "missing_key", "nebula.toml", 5),
        (
            MANIFEST + "[[filter]]\nname='f'\ncommand='make'\n[[filter]]\nname='f'\ncommand='make'\n",
            {"a": A},
            "duplicate_id",
            "nebula.toml",
            7,
        ),
        (
            MANIFEST + "[[filter]]\nname='f'\ncommand='make'\n[[filter]]\nname='g'\ncommand=['nosuch']\n",
            {"a": A},
            "missing_program",
            "nebula.toml",
            8,
        ),
        (MANIFEST + "[[filter]]\nname='f'\ncommand='make \"'\n", {"a": A}, "missing_program", "nebula.toml", 5),
        (MANIFEST + "[[filter]]\nname='f'\ncommand='make'\ntimeout=0\n", {"a": A}, "bounds", "nebula.toml", 6),
        (MANIFEST, {}, "empty", "nebula.toml", None),
        (MANIFEST, {"a": 'title = "t"'}, "missing_id", "a.md", 1),
        (MANIFEST, {"a": 'title = "t"\nid = ""'}, "missing_id", "a.md", 3),
        (MANIFEST, {"a": 'id = "a/b"\ntitle = "t"'}, "bad_id", "a.md", 2),
        (MANIFEST, {"a": f'id = "{"x" * 81}"\ntitle = "t"'}, "bad_id", "a.md", 2),
        (MANIFEST, {"a": 'id = "a.lock"\ntitle = "t"'}, "bad_id", "a.md", 2),
        (MANIFEST, {"a": "id = 3\ntitle = 't'"}, "wrong_type", "a.md", 2),
        (MANIFEST, {"a": A, "b": 'title = "u"\nid = "A"'}, "duplicate_id", "b.md", 3),
        (MANIFEST, {"a": phase("a", 'depends_on = ["b",', ' "c"]'), "b": phase("b")}, "unknown_dependency", "a.md", 5),
        (MANIFEST, {"a": phase("a", 'blocks = ["c"]')}, "unknown_dependency", "a.md", 4),
        (
            MANIFEST,
            {"a": phase("a", 'depends_on = ["b"]'), "b": phase("b", 'depends_on = ["a"]')},
            "cycle",
            "a.md",
            4,
        ),
        (
            MANIFEST,
            {"a": phase("a"), "b": phase("b", 'depends_on = ["a"]', 'blocks = ["a"]')},
            "cycle",
            "b.md",
            5,
        ),
        (MANIFEST, {"a": phase("a", 'depends_on = ["a"]')}, "cycle", "a.md", 4),
        (MANIFEST, {"a": phase("a", "priority = -1")}, "bounds", "a.md", 4),
        (MANIFEST, {"a": phase("a", "max_review_cycles = 2.5")}, "wrong_type", "a.md", 4),
        (MANIFEST, {"a": phase("a", 'gate = "open"')}, "unknown_gate", "a.md", 4),
        (MANIFEST, {"a": phase("a", 'review = "none"')}, "unchecked", "a.md", 4),
        (MANIFEST, {"a": phase("a", "allow_scope_overlap = 1")}, "wrong_type", "a.md", 4),
        (MANIFEST, {"a": phase("a", "depends_on = 'b'")}, "wrong_type", "a.md", 4),
        (MANIFEST, {"a": phase("a", "x = [1,", "oops")}, "bad_toml", "a.md", 5),
        (MANIFEST, {"a": phase("a", 'scope = ["ok",', '"../x"]')}, "unsafe_scope", "a.md", 5),
        (
            MANIFEST,
            {"a": phase("a", 'scope = ["src/*.py"]'), "b": phase("b", 'scope = ["docs", "src/b*"]')},
            "scope_overlap",
            "b.md",
            4,
        ),
    ],
)
def test_each_category_with_its_line(
    manifest: str, phases: dict[str, str], category: str, file: str, line: int | None
) -> None:
    """One thing wrong is one error, of its category, on its line, with a message and what to do."""
    errors = [problem for problem in check(manifest, **phases) if problem.severity == Severity.ERROR]
    assert [(problem.category, problem.file, problem.line) for problem in errors] == [(category, file, line)]
    assert category in CATEGORIES
    assert errors[0].message.endswith(".")
    assert errors[0].fix.endswith((".", "?"))


@pytest.mark.parametrize(
    ("text", "line"), [("# no header\n", 1), ("+++\nid = 'a'\n", 1), ("", 1), ("\n+++\nid = 'a'\n+++\n", 1)]
)
def test_a_file_without_a_header(text: str, line: int) -> None:
    """A Markdown file that does not begin with a closed header is a bad header."""
    problems = validate(parse_nebula("d", {"nebula.toml": MANIFEST, "a.md": text}), MACHINE)
    assert [(p.category, p.file, p.line) for p in problems] == [("bad_header", "a.md", line)]


def test_the_page_lists_every_category() -> None:
    """The categories that docs/nebula.md lists are exactly those that the code uses."""
    plan = ROOT / "scripts/faber/nebula/plan"
    source = "".join(path.read_text() for path in plan.glob("*.py"))
    assert set(re.findall(r'"([a-z]+(?:_[a-z]+)*)"', source)) >= CATEGORIES
    calls = r'(?:NebulaProblem|note|_problem|_unreadable|choice)\((?:parsed, )?\s*"([a-z_]+)"'
    assert set(re.findall(calls, source)) - {"isolation", "gate"} <= CATEGORIES


def test_everything_is_said_at_once() -> None:
    """Problems of many kinds in many files come together, nebula.toml's first, each file's by line."""
    problems = check(
        MANIFEST + '[execution]\ngate = "x"\nmax_workers = "y"\nhail = 1\n[[filter]]\nname = "f"\ncommand = "nosuch"\n',
        a=phase("a", 'depends_on = ["b", "zz"]', "priority = 100"),
        b=phase("b", 'depends_on = ["a"]', 'scope = ["/etc"]'),
        c='title = "only"',
        d='title = "t"\nid = "a"',
        e="nonsense",
    )
    assert [(p.file, p.line, p.category) for p in problems] == [
        ("nebula.toml", 4, "unknown_gate"),
        ("nebula.toml", 5, "wrong_type"),
        ("nebula.toml", 6, "unknown_key"),
        ("nebula.toml", 9, "missing_program"),
        ("a.md", 4, "cycle"),
        ("a.md", 4, "unknown_dependency"),
        ("a.md", 5, "bounds"),
        ("b.md", 5, "unsafe_scope"),
        ("c.md", 1, "missing_id"),
        ("d.md", 3, "duplicate_id"),
        ("e.md", 2, "bad_toml"),
    ]


def test_the_cycle_is_shown_and_each_is_its_own_problem() -> None:
    """A cycle is spelled out from its smallest id; two cycles are two problems."""
    problems = check(
        a=phase("a", 'depends_on = ["c"]'),
        b=phase("b", 'depends_on = ["a"]'),
        c=phase("c", 'depends_on = ["b"]'),
        x=phase("x", 'depends_on = ["y"]'),
        y=phase("y", 'depends_on = ["x"]'),
    )
    assert [(p.file, p.category) for p in problems] == [("a.md", "cycle"), ("x.md", "cycle")]
    assert "a → c → b → a" in problems[0].message
    assert "x → y → x" in problems[1].message


def test_a_near_miss_is_named() -> None:
    """An unknown dependency that is nearly a phase's id says which was meant."""
    (problem,) = check(parser=phase("parser"), b=phase("b", 'depends_on = ["parsr"]'))
    assert problem.fix == "Did you mean 'parser'?"


@pytest.mark.parametrize(
    ("first", "second", "overlapping"),
    [
        ('scope = ["src"]', 'scope = ["src/x.py"]', True),
        ('scope = ["src"]', 'scope = ["src/x.py"]\nallow_scope_overlap = true', False),
        ('scope = ["src"]\nallow_scope_overlap = true', 'scope = ["src/x.py"]', False),
        ('scope = ["src"]', 'scope = ["src/x.py"]\ndepends_on = ["a"]', False),
        ('scope = ["src"]\nblocks = ["b"]', 'scope = ["src/x.py"]', False),
        ('scope = ["src"]', 'scope = ["docs"]', False),
        ('scope = ["src/a*.py"]', 'scope = ["src/b*.py", "src/**/*.md"]', False),
        ('scope = ["src"]', "", False),
    ],
)
def test_only_phases_that_may_run_at_once_overlap(first: str, second: str, overlapping: bool) -> None:
    """Scopes may overlap where one phase waits for the other, however far, or where one of them allows it."""
    problems = check(a=phase("a", first), b=phase("b", second), c=phase("c"))
    assert [p.category for p in problems] == ["scope_overlap"] * overlapping
    far = check(
        a=phase("a", 'scope = ["src"]'),
        b=phase("b", 'depends_on = ["a"]'),
        c=phase("c", 'depends_on = ["b"]', 'scope = ["src"]'),
    )
    assert far == []


def test_many_overlaps_are_counted_not_listed() -> None:
    """Of a nebula in which everything overlaps the first hundred pairs are listed, and that there are more."""
    problems = check(**{f"p{n:03}": phase(f"p{n:03}", 'scope = ["**"]') for n in range(60)})
    assert len(problems) == MAX_OVERLAPS + 1
    assert problems[0].file == "nebula.toml"


def test_thousands_of_phases_with_scopes_of_their_own() -> None:
    """Two thousand phases in a chain and beside it, each with a directory of its own, are valid."""
    phases = {
        f"p{n}": phase(f"p{n}", f'scope = ["src/d{n}/**"]', f'depends_on = ["p{n - 1}"]' if n % 2 else "")
        for n in range(2000)
    }
    assert check(**phases) == []


def test_a_setup_may_bring_what_a_filter_runs() -> None:
    """With a setup a filter's missing program is a warning; without one, an error."""
    filters = '[[filter]]\nname = "f"\ncommand = "./venv/bin/x"\n'
    (problem,) = check(MANIFEST + '[execution]\nsetup = "make"\n' + filters, a=A)
    assert (problem.category, problem.severity) == ("missing_program", Severity.WARNING)
    (problem,) = check(MANIFEST + filters, a=A)
    assert problem.severity == Severity.ERROR
    assert check(MANIFEST + filters.replace("./venv/bin/x", "bin/check"), a=A) == []


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("make test", "make"),
        (("make", "test"), "make"),
        ("CI=1 MODE='a b' make", "make"),
        ("go vet ./... && go test ./...", "go"),
        ("npx@latest run", "npx@latest"),
        ("cd sub && make", None),
        ("(make)", None),
        ("if make; then true; fi", None),
        ('"$TOOL" run', None),
        ("'my tool' run", "my tool"),
        ("./check.sh|cat", "./check.sh"),
        ("", None),
        ("make # note", "make"),
    ],
)
def test_the_program_of_a_command(command: str | tuple[str, ...], program: str | None) -> None:
    """The program is the first word that a shell would look for; where only a shell can tell, there is none."""
    assert program_of(command) == program


def test_warnings_keep_nothing_from_running() -> None:
    """A phase without a title or text, and unknown keys, are no errors."""
    parsed = parse_nebula("d", {"nebula.toml": CHECKED, "a.md": '+++\nid = "a"\nnew = 1\n+++\n'})
    problems = validate(parsed, MACHINE)
    assert {(p.category, p.severity.value) for p in problems} == {
        ("missing_key", "WARNING"),
        ("empty", "WARNING"),
        ("unknown_key", "INFO"),
    }
    assert is_valid(problems)
    require_valid(problems, "d")
    assert parsed.nebula.phases[0].title == "a"


def test_an_invalid_nebula_is_an_error_with_all_problems() -> None:
    """What needs a valid nebula refuses another one, naming the first problem and carrying all."""
    problems = check(a=phase("a", 'depends_on = ["b"]', 'gate = "x"'))
    with pytest.raises(InvalidNebula) as refused:
        require_valid(problems, "d")
    assert "a.md:4" in refused.value.message
    assert [problem["category"] for problem in refused.value.fields["problems"]] == [
        "unknown_dependency",
        "unknown_gate",
    ]


def test_the_example_is_valid() -> None:
    """The example nebula has nothing wrong, whatever is installed."""
    parsed = load_nebula(str(Path(__file__).parents[3] / "examples/nebula"))
    assert validate(parsed, MACHINE) == []


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (MANIFEST, "agent_tools allows coders no command"),
        (MANIFEST + '[execution]\nagent_tools = ["Bash(make *)"]\n', "coders may run some, and nothing makes them"),
        (CHECKED, None),
        (MANIFEST + "[[filter]]\nname = 'f'\n", None),
    ],
)
def test_work_that_nothing_checks_is_a_warning(manifest: str, said: str | None) -> None:
    """Without a filter nothing runs the project's checks; a filter with a mistake has a problem of its own."""
    found = [problem for problem in check(manifest, a=A) if problem.category == "unchecked"]
    assert [problem.severity.value for problem in found] == (["WARNING"] if said else [])
    assert all(said and said in problem.message for problem in found)
