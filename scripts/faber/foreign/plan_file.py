"""The plan that another tool wrote for a run: a file beside the store, named by the run's plan id.

Nothing in it is trusted: links are not followed, a file has a largest size and depth, and names and texts are bounded.
"""

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from faber.errors import FaberError, Notice, Severity
from faber.foreign.spelling import PHASE_NAMES, STEP_NAMES, name_of, place_of, text_of
from faber.model.documents import PhasePlan, StepPlan
from faber.store import strict_json
from faber.store.files import read_json
from faber.store.layout import PLAN, RUN_OF_PLAN, STATE, Layout
from faber.text.safe_text import inert, one_line, shorten

MAX_PLAN = 1024 * 1024
MAX_PHASES = 50
MAX_STEPS = 100
MAX_NAME = 200
MAX_INSTRUCTION = 4_000

_PLAN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", re.ASCII)
_STEP_LISTS = ("pre_steps", "steps", "post_steps")


class NotAPlan(Exception):
    """A document is not the plan that was looked for; the message is a clause."""


class PhaseSource(NamedTuple):
    """Phases with their steps, and where they are from: a path in the project, or the name of a workflow.

    `disabled` names the phases that are not to run. `whole` is true for the run's own plan, which may have phases that
    its state does not mention; a workflow only says which steps the run's phases have.
    """

    origin: str
    phases: list[PhasePlan]
    disabled: frozenset[str] = frozenset()
    whole: bool = True


def find_plan(layout: Layout, directory: str, run_id: str, named: object) -> tuple[PhaseSource | None, list[Notice]]:
    """The plan of a run in `directory` whose state or metadata names the plan `named`, and why a file is not it."""
    places, notices = [(os.path.join(directory, PLAN), "")], []
    plan_id = text_of(named) or run_id.rpartition(RUN_OF_PLAN)[0]
    if _PLAN_ID.fullmatch(plan_id):
        places += [(os.path.join(known, f"{plan_id}.json"), plan_id) for known in layout.plan_directories]
        beside = [os.path.join(base, plan_id) for base in layout.bases]
        places += [(os.path.join(known, PLAN), plan_id) for known in beside if not os.path.islink(known)]
    elif plan_id:
        notices.append(_unreadable(run_id, f"its id {plan_id[:80]!a} is no file name"))
    for path, wanted in places:
        shown = os.path.relpath(path, layout.root)
        try:
            return read_plan(read_json(path, MAX_PLAN), wanted, shown), notices
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (FaberError, NotAPlan, strict_json.InvalidJSON) as problem:
            notices.append(_unreadable(shown, str(problem).rstrip(".")))
        except OSError as problem:
            notices.append(_unreadable(shown, problem.strerror or str(problem)))
    return None, notices


def plan_in_state(raw: object, run_id: str) -> tuple[PhaseSource | None, list[Notice]]:
    """The workflow that a state holds whole."""
    try:
        return read_plan(raw, "", STATE), []
    except NotAPlan as problem:
        return None, [_unreadable(run_id, str(problem))]


def _unreadable(where: str, problem: str) -> Notice:
    message = f"The plan of the run cannot be read: {problem}."
    return Notice(
        "plan_unreadable", Severity.WARNING, message, "The file is kept; the plan is taken as missing.", where
    )


def read_plan(raw: object, plan_id: str, origin: str) -> PhaseSource:
    """The phases of another tool's plan, which must not name another id (unless none is given); raises `NotAPlan`.

    Phases are an object or an array, at the top or in `workflow`; a step has an id, or else what it does names it.
    """
    if not isinstance(raw, dict):
        raise NotAPlan("it is not a JSON object")
    own_id = text_of(raw.get("id") or raw.get("plan_id"))
    if plan_id and own_id not in (None, plan_id):
        raise NotAPlan(f"it is plan {own_id!a:.80}")
    workflow = raw.get("workflow")
    given = (workflow.get("phases") if isinstance(workflow, dict) else None) or raw.get("phases")
    items = _items(given, PHASE_NAMES)
    if not items:
        raise NotAPlan("it has no phases")
    if len(items) > MAX_PHASES:
        raise NotAPlan(f"it has {len(items)} phases; the limit is {MAX_PHASES}")
    phases: dict[str, PhasePlan] = {}
    disabled = set()
    for name, item in items:
        phase = place_of(name)
        if phase is None:
            raise NotAPlan("a phase has no name")
        if item.get("enabled") is False:
            disabled.add(phase)
        elif phase not in phases:
            phases[phase] = _phase(phase, name, item)
    return PhaseSource(origin, list(phases.values()), frozenset(disabled - phases.keys()))


def _items(given: object, names: tuple[str, ...]) -> list[tuple[str | None, Mapping[str, object]]]:
    """The objects of a mapping or an array, each with its name."""
    if isinstance(given, dict):
        return [(name, item if isinstance(item, dict) else {}) for name, item in given.items()]
    if isinstance(given, list):
        return [
            (item, {}) if isinstance(item, str) else (name_of(item, names), item if isinstance(item, dict) else {})
            for item in given
        ]
    return []


def _phase(phase: str, name: str | None, item: Mapping[str, object]) -> PhasePlan:
    steps: dict[str, StepPlan] = {}
    for key in _STEP_LISTS:
        for called, step in _items(item.get(key), STEP_NAMES):
            action = text_of(step.get("action"))
            step_id = place_of(called or action, phase)
            if step_id is None:
                raise NotAPlan(f"a step of phase {phase} has no name")
            if step_id not in steps:
                steps[step_id] = _step(step_id, text_of(step.get("name")) or called or action or step_id, step)
    if len(steps) > MAX_STEPS:
        raise NotAPlan(f"phase {phase} has {len(steps)} steps; the limit is {MAX_STEPS}")
    made: PhasePlan = {"id": phase, "name": one_line(name or phase, MAX_NAME), "steps": list(steps.values())}
    if description := text_of(item.get("description")):
        made["description"] = one_line(description, MAX_NAME)
    return made


def _step(step_id: str, name: str, item: Mapping[str, object]) -> StepPlan:
    made: StepPlan = {"id": step_id, "name": one_line(name, MAX_NAME)}
    command, arguments = text_of(item.get("command")), item.get("arguments")
    if command and isinstance(arguments, dict):
        values = {
            key: v if isinstance(v, str) else strict_json.dumps(v).decode().strip() for key, v in arguments.items()
        }
        command = " ".join([command, *(f"{key}={value}" for key, value in values.items())])
    said = [text_of(item.get(key)) for key in ("description", "details", "prompt")]
    parts = dict.fromkeys(part for part in (*said, command) if part and part != name)
    if parts:
        made["instruction"] = shorten(inert("\n".join(parts)), MAX_INSTRUCTION)
    return made
