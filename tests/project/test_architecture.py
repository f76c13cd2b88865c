"""The rooms of the source, read from its syntax trees: who imports whom, how large they are, who owns the paths."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "scripts" / "faber"

# A room imports only from those before it. `__init__` and `__main__` stand outside: nothing, and everything.
ORDER = (
    "errors",
    "text",
    "events",
    "model",
    "store",
    "processes",
    "notify",
    "git",
    "foreign",
    "repair",
    "workflows",
    "sources",
    "responses",
    "agents",
    "feedback",
    "sync",
    "context",
    "view",
    "github",
    "steps",
    "pull_request",
    "github_events",
    "nebula.plan",
    "nebula.worktrees",
    "nebula.phase",
    "nebula.healing",
    "nebula.run",
    "nebula.view",
    "nebula.cluster",
    "report",
    "hooks",
    "console",
    "nebula.commands",
    "demo",
    "cli",
)
FREE = {"__version__"}
LINES_OF_A_ROOM = 3_500
LINES_OF_A_MODULE = 350
PARAMETERS = 8
UNTYPED = 40  # `dict[str, Any]` in the signatures of functions

Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources() -> list[tuple[str, Path]]:
    """Every module as (its dotted name inside faber, its file)."""
    files = sorted(PACKAGE.rglob("*.py"))
    return [(".".join(file.relative_to(PACKAGE).with_suffix("").parts), file) for file in files]


@cache
def trees() -> list[tuple[str, ast.Module]]:
    """Every module as (its dotted name inside faber, its syntax tree)."""
    return [(module, ast.parse(file.read_text("utf-8"))) for module, file in sources()]


@cache
def nodes(tree: ast.AST) -> list[ast.AST]:
    """Every node of a syntax tree, walked once."""
    return list(ast.walk(tree))


def room_of(module: str) -> str:
    """The room that a dotted name inside faber is in; the name's first part where it is in none."""
    first, *rest = module.split(".")
    nested = ".".join([first, *rest[:1]])
    return nested if nested in ORDER else first


def imported(module: str, tree: ast.AST) -> Iterator[str]:
    """What `module` imports of faber, as dotted names inside it: by an import anywhere, or by a name in a string."""
    for node in nodes(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = ["faber", *module.split(".")][: -node.level]
                base = ".".join([*above, *filter(None, [base])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            dotted = re.match(r"faber\.(\w+(?:\.\w+)*)(?:$|:\w)", node.value)
            names = [f"faber.{dotted[1]}"] if dotted and room_of(dotted[1]) in ORDER else []  # faber.db is a file
        for name in names:
            inside = name.removeprefix("faber.")
            if inside != name and inside not in FREE:
                yield inside


def misdirected(module: str, tree: ast.Module) -> list[str]:
    """The imports of `module` that go against the order."""
    if module == "__main__":
        return []
    own = room_of(module)
    allowed = ORDER[: ORDER.index(own) + 1] if own in ORDER else ()
    rooms = [room_of(name) for name in imported(module, tree)]
    return [f"{module} imports faber.{room}" for room in rooms if room not in allowed]


def module_graph() -> dict[str, set[str]]:
    """Each module with the modules of faber that it imports."""
    read = trees()
    known = {module for module, _ in read}

    def target(name: str) -> str | None:
        return next((each for each in (name, name.rpartition(".")[0]) if each in known), None)

    return {module: {found for name in imported(module, tree) if (found := target(name))} for module, tree in read}


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """The modules of one cycle; nothing where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def functions() -> Iterator[tuple[str, Function]]:
    """Every function of the source, with its name."""
    for module, tree in trees():
        for node in nodes(tree):
            if isinstance(node, Function):
                yield f"{module}:{node.name}", node


def parameters(function: Function) -> list[ast.arg]:
    """The parameters of a function, but for `self` and `cls`."""
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return every[1:] if every and every[0].arg in ("self", "cls") else every


def untyped(function: Function) -> int:
    """How often `dict[str, Any]` stands in the signature of a function."""
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, [given.vararg, given.kwarg])]
    annotations = [*(each.annotation for each in every), function.returns]
    return sum(ast.unparse(each).count("dict[str, Any]") for each in annotations if each)


def paths_spelled(tree: ast.Module) -> list[str]:
    """String literals that are paths into the store; a sentence that mentions one, or a docstring, is none."""
    return [
        node.value
        for node in nodes(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"\S*\.fractary\S*", node.value)
    ]


def test_every_import_points_down() -> None:
    """A room imports only from the rooms before it in the order."""
    assert [wrong for module, tree in trees() for wrong in misdirected(module, tree)] == []


def test_every_package_is_in_the_order() -> None:
    """No package stands outside the order, and none of the source is left unread."""
    assert {room_of(module) for module, _ in sources()} - {"__init__", "__main__", "nebula"} == set(ORDER)


@pytest.mark.parametrize(
    ("module", "source", "names"),
    [
        ("store.files", "from faber.cli import main", ["cli"]),
        ("store.files", "import faber.git.inspect", ["git"]),
        ("store.files", "import os, faber.git.inspect as g", ["git"]),
        ("store.files", "from faber import context, errors", ["context"]),
        ("store.files", "from ..sync import push", ["sync"]),
        ("store.files", "from .. import sync", ["sync"]),
        ("store.__init__", "from ..sync import push", ["sync"]),
        ("store.deep.files", "from ...sync import push", ["sync"]),
        ("store.files", "def f():\n    if True:\n        from faber.nebula.plan.graph import insert", ["nebula.plan"]),
        ("nebula.plan.graph", "from faber.nebula.run import apply", ["nebula.run"]),
        ("store.files", "importlib.import_module('faber.agents.claude')", ["agents"]),
        ("store.files", "COMMANDS = {'run': 'faber.cli.run:command'}", ["cli"]),
        ("store.files", "from faber.unheard_of import x", ["unheard_of"]),
        ("errors", "from faber.model import Phase", ["model"]),
        ("__init__", "from faber.errors import FaberError", ["errors"]),
        ("store.files", "from faber import __version__\nfrom faber.model import Phase\nfrom . import layout", []),
        ("store.files", "from .layout import Layout\nfrom ..errors import Notice\nimport os.path", []),
        ("nebula.run.apply", "from faber.nebula.plan import graph", []),
        ("cli.run", "from faber.store import layout\nfrom faber.console.output import show", []),
        ("store.files", "'faber is a plugin.'\nsay('faber.cli: see there')\nopen('faber.db')", []),
        ("__main__", "from faber.cli import main", []),
    ],
)
def test_the_import_check_sees(module: str, source: str, names: list[str]) -> None:
    """An import against the order is found in every spelling of one, and nothing else is."""
    assert misdirected(module, ast.parse(source)) == [f"{module} imports faber.{name}" for name in names]


def test_no_modules_import_each_other() -> None:
    """There is no cycle of imports, those inside functions included."""
    assert cycle(module_graph()) == []


def test_the_cycle_check_sees() -> None:
    """Modules that import each other over any number of others are found."""
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}})
    assert not cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()})


def test_no_room_is_too_large() -> None:
    """A room has at most 3,500 lines, a module 350."""
    modules = {module: len(file.read_text("utf-8").splitlines()) for module, file in sources()}
    rooms: Counter[str] = Counter()
    for module, lines in modules.items():
        rooms[room_of(module)] += lines
    assert {room: lines for room, lines in rooms.items() if lines > LINES_OF_A_ROOM} == {}
    assert {module: lines for module, lines in modules.items() if lines > LINES_OF_A_MODULE} == {}


def test_each_room_says_what_it_is_for() -> None:
    """The docstring of each room's `__init__` says in one sentence what belongs into it."""
    for room in set(ORDER) - {"errors"}:
        tree = ast.parse((PACKAGE.joinpath(*room.split(".")) / "__init__.py").read_text("utf-8"))
        assert len(ast.get_docstring(tree) or "") > 30, room


def test_each_module_has_a_name_of_its_own() -> None:
    """No two modules are called the same, so that a name in a traceback says which one it is."""
    names = Counter(file.stem for _, file in sources() if file.stem not in ("__init__", "__main__"))
    assert [name for name, count in names.items() if count > 1] == []


def test_each_public_type_has_a_name_of_its_own() -> None:
    """No two public classes are called the same."""
    names = Counter(
        node.name
        for _, tree in trees()
        for node in nodes(tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_no_function_has_too_many_parameters() -> None:
    """A function takes at most eight parameters."""
    assert [where for where, function in functions() if len(parameters(function)) > PARAMETERS] == []


def test_few_signatures_hold_untyped_dictionaries() -> None:
    """`dict[str, Any]` stands in fewer than forty places of the functions' signatures."""
    found = {where: count for where, function in functions() if (count := untyped(function))}
    assert sum(found.values()) < UNTYPED, found


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("def f(a: dict[str, Any], *b: dict[str, Any], c: int = 1, **d: Any) -> dict[str, Any]: ...", 3),
        ("def f(a: list[dict[str, Any]]) -> Callable[[dict[str, Any]], None]: ...", 2),
        ("def f(a: dict[str, int]) -> None:\n    b: dict[str, Any] = {}", 0),
    ],
)
def test_the_count_of_untyped_dictionaries_sees(source: str, count: int) -> None:
    """Every spelling in a signature is counted, and nothing in a body."""
    (function,) = ast.parse(source).body
    assert isinstance(function, Function)
    assert untyped(function) == count


def test_nothing_asks_whether_an_object_has_an_attribute() -> None:
    """`hasattr` decides nothing: what a value can do is in its type."""
    assert [
        module
        for module, tree in trees()
        for node in nodes(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "hasattr"
    ] == []


def test_only_the_layout_spells_the_stores_paths() -> None:
    """Paths into the store are written in store/layout.py, and nowhere else."""
    spelling = {module for module, tree in trees() if paths_spelled(tree)}
    assert spelling == {"store.layout"}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("root / '.fractary' / 'faber'", [".fractary"]),
        ("open('.fractary/faber/config.yaml')", [".fractary/faber/config.yaml"]),
        ("f'{root}/.fractary/runs'", ["/.fractary/runs"]),
        ("'''.fractary/faber is where runs live.'''", []),
        ("say('Correct .fractary/faber/config.yaml first.')", []),
    ],
)
def test_the_path_check_sees(source: str, found: list[str]) -> None:
    """A literal that is a path into the store is found, a sentence about one is not."""
    assert paths_spelled(ast.parse(source)) == found


# Names of event types that are also other words of faber's: a key of the state, a stage, a directory.
HOMONYMS = {"feedback_request", "review", "checkpoint", "step_start"}  # the last: also an event of OpenCode


def event_names_spelled(tree: ast.Module, names: set[str]) -> list[str]:
    """String literals that are the name of an event type."""
    return [
        node.value
        for node in nodes(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names
    ]


def test_event_types_are_spelled_in_one_place() -> None:
    """Whoever makes or reads events uses the constants of events/event_types.py: a misspelt one is no silent miss."""
    from faber.events.event_types import known_types

    names = set(known_types()) - HOMONYMS
    found = {
        module: spelled
        for module, tree in trees()
        if module != "events.event_types" and (spelled := event_names_spelled(tree, names))
    }
    assert found == {}


def test_the_check_of_event_types_sees() -> None:
    """A literal that is an event type's name is found; a sentence or a longer name is not."""
    spelled = ast.parse("a == 'step_start'; b = {'type': 'step_start'}")
    assert event_names_spelled(spelled, {"step_start"}) == ["step_start"] * 2
    assert event_names_spelled(ast.parse("'''step_start is one'''; c = 'step_starts'"), {"step_start"}) == []


POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{[0-9,]*\})\+")


def test_no_group_of_a_pattern_is_possessive() -> None:
    """A group that may not be given back is written `(?>…)`: `(…)*+` matches too much before Python 3.11.5."""
    found = [
        (module, node.value)
        for module, tree in trees()
        for node in nodes(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and POSSESSIVE_GROUP.search(node.value)
    ]
    assert found == []
    assert POSSESSIVE_GROUP.search(r"(?:a|b)*+")
    assert POSSESSIVE_GROUP.search(r"(ab){2,}+")
