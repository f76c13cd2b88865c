"""Workflow definitions: finding the built-in ones, the project's own, and files; resolving them into plans."""

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from faber.errors import FaberError, InvalidInput
from faber.model.documents import Plan
from faber.model.ids import check_name
from faber.store import strict
from faber.store.bundle import plugin_root
from faber.store.cache import memo
from faber.store.files import read_bytes
from faber.store.layout import Layout
from faber.workflows.source_map import Definition, Fault, refusal
from faber.workflows.workflow_errors import UnknownWorkflow

if TYPE_CHECKING:
    from faber.store.schema import Violation

# The plugin's own definitions.
BUILT_IN = os.path.join(plugin_root(), "workflows")
SUFFIXES = (".yaml", ".yml", ".json")
MAX_DEFINITION = 256 * 1024
# How many ancestors a definition may have.
MAX_PARENTS = 8


class Resolved(NamedTuple):
    """A definition merged with all that it extends: the plan, and the name of the definition it extends."""

    plan: Plan
    extends: str | None


def load_plan(layout: Layout, workflow: str) -> Plan:
    """The plan that a run of `workflow` freezes: a name, or the path of a definition in the project.

    Raises `UnknownWorkflow` with the known names, `InvalidInput` for an invalid name, and
    `InvalidDefinition` with every problem of the definition and of those it extends.
    """
    return resolve(layout, find(layout, workflow), all_checked=False).plan


def known_workflows(layout: Layout) -> list[str]:
    """The names that `load_plan` knows, sorted."""
    paths = [*project_definitions(layout), *_files(BUILT_IN)]
    return sorted({_stem(path) for path in paths if _is_name(_stem(path)) and os.path.isfile(path)})


def project_definitions(layout: Layout) -> list[str]:
    """The path of every definition of the project, sorted."""
    return _files(layout.workflows)


def find(layout: Layout, workflow: str) -> str:
    """The path of a workflow: the project's of that name before the built-in one, or a file of the project.

    Raises `UnknownWorkflow`, and `InvalidInput` if it is neither a path nor a name.
    """
    if os.sep in workflow or workflow.endswith(SUFFIXES):
        path = os.path.realpath(os.path.join(layout.root, workflow))
        if os.path.isfile(path) and path.startswith(os.path.realpath(layout.root) + os.sep):
            return path
    elif found := _named(check_name(workflow, "workflow"), layout.workflows, BUILT_IN):
        return found
    known = known_workflows(layout)
    raise UnknownWorkflow(f"There is no workflow {workflow[:80]!a}; known: {', '.join(known)}.", known=known)


def source(layout: Layout, path: str) -> str:
    """The display name of a definition: its path in the project, `built-in:NAME`, or its absolute path."""
    path = _canonical(path)
    root = os.path.realpath(layout.root)
    if os.path.dirname(path) == BUILT_IN:
        return f"built-in:{_stem(path)}"
    return os.path.relpath(path, root) if path.startswith(root + os.sep) else path


def resolve(layout: Layout, path: str, *, all_checked: bool = True) -> Resolved:
    """The definition at `path`, merged with all that it extends, as a plan; raises `InvalidDefinition`.

    All problems that can be found are reported at once, including those of the extended definitions. Without
    `all_checked` the plugin's own definitions are not checked against the schema, which takes longer than all the rest.
    """
    from faber.workflows.inheritance import check, check_ids, merge
    from faber.workflows.plans import plan_from

    faults: list[Fault] = []
    chain, whole = _chain(layout, path, faults, all_checked=all_checked)
    own = chain[0]
    if whole:
        phases = merge([], chain[-1], faults)
        for definition in reversed(chain[:-1]):
            phases = merge(phases, definition, faults)
        check(phases, own, faults)
    else:
        for definition in chain:
            check_ids(definition, faults)
    if isinstance(own.value, dict) and "id" not in own.value and not _is_name(own.name):
        faults.append(Fault(own, (), "the file's name is not a valid workflow name: the definition needs an id"))
    if faults:
        raise refusal(faults)
    description = next((d.value["description"] for d in chain if "description" in d.value), None)
    workflow_id = own.value.get("id", own.name)
    plan = plan_from(workflow_id, description, phases, [definition.source for definition in chain])
    return Resolved(plan, own.value.get("extends"))


def _chain(layout: Layout, path: str, faults: list[Fault], *, all_checked: bool) -> tuple[list[Definition], bool]:
    """The definition and those it extends, nearest first, and whether the chain is complete; adds to `faults`."""
    chain = [_read(layout, path, faults, all_checked=all_checked)]
    while isinstance(chain[-1].value, dict) and "extends" in chain[-1].value:
        child, name = chain[-1], chain[-1].value["extends"]
        if not isinstance(name, str) or not _is_name(name):
            return chain, False
        parent = _named(name, layout.workflows, BUILT_IN)
        if parent and _canonical(parent) == child.path:
            parent = _named(name, BUILT_IN) or parent
        shown = " → ".join([*(definition.name for definition in chain), name])
        message = None
        if parent is None:
            from faber.store.schema import nearest

            message = f"there is no workflow {name!a}{nearest(name, known_workflows(layout))}"
        elif _canonical(parent) in [definition.path for definition in chain]:
            message = f"definitions extend each other in a cycle: {shown}"
        elif len(chain) > MAX_PARENTS:
            message = f"a definition may have at most {MAX_PARENTS} ancestors: {shown}"
        if parent is None or message:
            faults.append(Fault(child, ("extends",), message or ""))
            return chain, False
        chain.append(_read(layout, parent, faults, all_checked=all_checked))
    return chain, chain[-1].value is not None


def _read(layout: Layout, path: str, faults: list[Fault], *, all_checked: bool) -> Definition:
    """The definition at `path`, checked against the schema; adds to `faults`."""
    made = Definition(source(layout, path), _canonical(path), _stem(path), "", None)
    try:
        text = read_bytes(path, MAX_DEFINITION).decode()
        # Parsed and checked once for each text: importing yaml and jsonschema takes longer than all the rest. What came
        # with faber was checked by its tests.
        checked = all_checked or os.path.dirname(made.path) != BUILT_IN
        name = f"{'' if checked else 'built-in '}workflow {made.path}"
        value = memo(layout, name, text, lambda given: _parse(path, given, checked=checked))
    except _Unfit as error:
        value = error.value
        faults += [Fault(made._replace(text=text, value=value), at, message) for at, message in error.problems]
    except strict.Malformed as error:
        faults.append(Fault(made, (), error.problem, error.line))
        return made
    except UnicodeDecodeError as error:
        faults.append(Fault(made, (), f"not UTF-8: {error.reason} at byte {error.start}"))
        return made
    except OSError as error:
        faults.append(Fault(made, (), f"it cannot be read: {error.strerror or error}"))
        return made
    except FaberError as error:
        faults.append(Fault(made, (), error.message))
        return made
    made = made._replace(text=text, value=value)
    if isinstance(value, dict) and not {"phases", "extends"} & value.keys():
        faults.append(Fault(made, (), "it has neither phases nor a workflow that it extends"))
    return made


class _Unfit(Exception):
    """A definition that does not fit the schema, and why."""

    def __init__(self, value: Any, problems: "list[Violation]") -> None:
        super().__init__()
        self.value, self.problems = value, problems


def _parse(path: str, text: str, *, checked: bool) -> Any:
    """The definition in `text`; raises `strict.Malformed` and, if it is `checked` against the schema, `_Unfit`."""
    value = (strict.json_value if path.endswith(".json") else strict.yaml_value)(text, MAX_DEFINITION)
    if checked:
        from faber.store.schema import violations

        if found := violations("workflow", value):
            raise _Unfit(value, found)
    return value


def _named(name: str, *directories: str) -> str | None:
    candidates = (os.path.join(directory, name + suffix) for directory in directories for suffix in SUFFIXES)
    return next((path for path in candidates if os.path.isfile(path)), None)


def _files(directory: str) -> list[str]:
    if not os.path.isdir(directory):
        return []
    paths = (os.path.join(directory, name) for name in sorted(os.listdir(directory)) if name.endswith(SUFFIXES))
    return [path for path in paths if not os.path.isdir(path)]


def _canonical(path: str) -> str:
    """The canonical path, except for a link in its last component, which is refused when it is read."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _is_name(text: str) -> bool:
    try:
        check_name(text, "workflow")
    except InvalidInput:
        return False
    return True
