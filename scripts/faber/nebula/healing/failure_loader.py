"""Load a failure after the fact: a nebula's phase, or a step of a workflow's run."""

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from faber.errors import FaberError, InvalidInput, Notice, RunNotFound, Severity
from faber.events.drafts import Event
from faber.events.event_types import COMMIT_CREATE, PHASE_ERROR
from faber.foreign.open_run import open_run
from faber.git import diff
from faber.git.git_errors import NoRepository
from faber.git.programs import Git
from faber.git.repository import find
from faber.model.documents import State
from faber.model.progress import places, step_plan
from faber.model.state_parts import StepState
from faber.nebula.healing.diagnosis import FailureDiagnosis, analyze_failure
from faber.nebula.healing.failure_from_log import Failure, PhaseEnd, phase_failure, step_failure
from faber.nebula.healing.healing_history import heal_attempts, original_of
from faber.nebula.healing.partial_work import PartialWork, build_partial_work
from faber.nebula.phase import checkpoint
from faber.nebula.phase.cycle_state import CycleState
from faber.nebula.phase.phase_errors import InvalidCheckpoint
from faber.nebula.plan.names import part
from faber.nebula.plan.nebula_files import load_nebula
from faber.nebula.plan.plan_errors import UnknownPhase
from faber.nebula.plan.specs import Nebula, PhaseSpec
from faber.nebula.plan.state_file import PhaseRecord, load_state
from faber.store import log
from faber.store.layout import PARKED, Layout
from faber.store.load import Run

COMMITS = 50


class PhaseFailure(NamedTuple):
    """A failure with everything that an architect is told. `attempts` counts earlier healing attempts for it,
    `original` is the phase that people wrote, `named_files` are the files that its open findings name."""

    nebula: Nebula
    spec: PhaseSpec
    diagnosis: FailureDiagnosis
    attempts: int
    original: str
    notices: list[Notice]
    named_files: tuple[str, ...] = ()

    @property
    def partial_work(self) -> PartialWork | None:
        """The work of the failed phase."""
        return self.diagnosis.partial_work


class RepositoryDiff:
    """A `GitDiffLister` for commits of the repository at `root`, independent of what is checked out."""

    def __init__(self, root: str) -> None:
        found = find(root)
        if found is None or found.top is None:
            raise NoRepository(f"{root[:200]!a} is not the working tree of a git repository.")
        self.git = Git(found.top, os.path.realpath(found.git_directory))

    def diff_file_list(self, base: str, head: str) -> list[str]:
        """All files that differ."""
        return diff.diff_files(self.git, base, head, 1_000_000).paths


# --- a nebula --------------------------------------------------------------------------------------


def load_phase_failure(layout: Layout, directory: str, phase: str) -> PhaseFailure:
    """The failure of `phase` of the nebula in `directory`, from its files, its checkpoint and its run's log.

    Raises `UnknownPhase`, `InvalidInput` if the phase did not fail, and `InvalidCheckpoint` if nothing is left of its
    cycles.
    """
    nebula = load_nebula(directory).nebula
    spec = spec_of(nebula.phases, phase)
    known, notices = load_state(directory)
    record = known.phases.get(phase, PhaseRecord()) if known else PhaseRecord()
    if record.status != "failed":
        raise InvalidInput(
            f"{phase} is {record.status}; only failed phases are healed.",
            recovery=f"`faber nebula status {directory}` shows which phases failed.",
        )
    run = _run_of(layout, known.run_id if known else "", notices)
    state = phase_cycles(directory, phase, run.directory if run else None)
    end = recorded_end(run.directory, run.state, phase) if run else None
    end = (end or PhaseEnd(reason=record.reason))._replace(cost_usd=record.cost_usd or None)
    attempts, original = record.heal_attempts, record.remedies or phase
    if run is not None:
        attempts, original = heal_attempts(run.state, phase), original_of(run.state, phase)
    failure = describe(layout.root, nebula, spec, phase_failure(phase, state, end), notices)
    return failure._replace(attempts=attempts, original=original)


def spec_of(specs: Iterable[PhaseSpec], phase: str) -> PhaseSpec:
    """The spec of a phase; raises `UnknownPhase`."""
    spec = next((each for each in specs if each.id == phase), None)
    if spec is None:
        raise UnknownPhase(f"There is no phase {phase[:80]!a}.", phase=ascii(phase))
    return spec


def _run_of(layout: Layout, run_id: str, notices: list[Notice]) -> Run | None:
    if not run_id:
        return None
    try:
        return open_run(layout, run_id)
    except RunNotFound as error:
        text = f"Its run is not in this store: {error.message} Only the state file is used."
        notices.append(Notice("run_not_found", Severity.WARNING, text, error.recovery, run_id))
        return None


def phase_cycles(directory: str, phase: str, run_directory: str | None) -> CycleState:
    """The newest state of the phase's cycles: its checkpoint, or the one that was parked when it failed."""
    saved = checkpoint.load(directory, phase)
    if saved is None and run_directory is not None:
        saved = _parked(os.path.join(run_directory, PARKED), phase)
    if saved is None:
        raise InvalidCheckpoint(
            f"There is no checkpoint of {phase}, so its progress is unknown.",
            phase=phase,
            recovery=f"`faber nebula apply {directory} --resume --retry-failed` tries it again.",
        )
    return saved.state


def _parked(directory: str, phase: str) -> checkpoint.Checkpoint | None:
    name = re.compile(re.escape(f"{checkpoint.PREFIX}{phase}.") + r"([0-9]{1,9})" + re.escape(checkpoint.SUFFIX))
    try:
        numbers = [int(match[1]) for file in os.listdir(directory) if (match := name.fullmatch(file))]
    except (FileNotFoundError, NotADirectoryError):
        return None
    for number in sorted(numbers, reverse=True):
        path = os.path.join(directory, f"{checkpoint.PREFIX}{phase}.{number}{checkpoint.SUFFIX}")
        try:
            with open(path, encoding="utf-8") as file:
                saved = checkpoint.from_toml(file.read(checkpoint.MAX_CHECKPOINT + 1))
        except (OSError, UnicodeDecodeError, InvalidCheckpoint):
            continue
        if saved.phase_id == phase:
            return saved
    return None


def recorded_end(directory: str, state: State, phase: str) -> PhaseEnd | None:
    """How the phase failed, according to the log of the run in `directory`, whose state is `state`."""
    for error in reversed(state["errors"]):
        if error.get("phase") == phase and error.get("type") == PHASE_ERROR:
            entry = log.find(directory, error["event_id"])
            return _end_of(log.read_event(directory, entry.file)) if entry else None
    return None


def _end_of(event: Event) -> PhaseEnd:
    given = event.get("metadata", {})
    reason = str(event["error"]["message"]) if event.get("error") else ""
    return PhaseEnd(str(given.get("code", "")), reason, None, given.get("spent_usd"), given.get("limit_usd"))


# --- a workflow's run ------------------------------------------------------------------------------


def load_step_failure(run: Run, root: str, step: str | None = None) -> PhaseFailure:
    """The failure of a step (`PHASE:STEP`, or its name; by default the one that failed last) of a workflow's run.

    Raises `InvalidInput` if no step failed, or if several have the name.
    """
    phase, name = _failed_place(run, step)
    planned, known = step_plan(run.plan, phase, name), run.state["phases"][phase]["steps"][name]
    events = _events_since(run, phase, name, known["first_event"] or 1)
    notices: list[Notice] = []
    commits = _commits(root, run, known, events, notices)
    task = part(f"{phase}-{name}")
    failure = step_failure(task, planned, known, events, commits)
    body = planned.get("instruction") or planned["name"]
    spec = PhaseSpec(task, planned["name"], body, max_review_cycles=failure.state.max_cycles)
    target = run.state["target"]
    goals = (target,) if target else ()
    nebula = Nebula(run.plan["workflow_id"], root)
    nebula = replace(nebula, context=replace(nebula.context, goals=goals))
    return describe(root, nebula, spec, failure, notices)


def _failed_place(run: Run, step: str | None) -> tuple[str, str]:
    every = [(at, run.state["phases"][at[0]]["steps"][at[1]]) for at in places(run.plan)]
    bad = [(at, known) for at, known in every if known["status"] == "failed" or _is_blocked(known)]
    if step is not None:
        bad = [(at, known) for at, known in bad if step in (at[1], f"{at[0]}:{at[1]}")]
    failed = [each for each in bad if each[1]["status"] == "failed"] or bad
    if not failed:
        what = "No step" if step is None else f"No step {step[:80]!a}"
        raise InvalidInput(
            f"{what} of {run.run_id} failed or lacks evidence.",
            recovery=f"`faber status {run.run_id}` shows its steps.",
        )
    if step is not None and len(failed) > 1:
        raise InvalidInput(f"Several steps are called {step[:80]!a}.", recovery="Name it as PHASE:STEP.")
    return max(failed, key=lambda each: each[1]["ended_event"] or each[1]["started_event"] or 0)[0]


def _is_blocked(known: StepState) -> bool:
    return known["status"] == "in_progress" and known["blocked"] > 0


def _events_since(run: Run, phase: str, step: str, first: int) -> list[Event]:
    """The events of the step and of the whole run since the step first started."""
    found = []
    for entry in log.listing(run.directory):
        if entry.event_id < first:
            continue
        event = log.read_event(run.directory, entry.file)
        if event.get("phase", phase) == phase and event.get("step", step) == step:
            found.append(event)
    return found


def _commits(root: str, run: Run, known: StepState, events: list[Event], notices: list[Notice]) -> list[str]:
    """The commits since the step started: from the log, else from the run's branch."""
    named = [str(event["metadata"]["sha"]) for event in events if event["type"] == COMMIT_CREATE]
    base = known["base_commit"]
    if named or not base:
        return named[-COMMITS:]
    branch = run.state["artifacts"].get("branch_name")
    try:
        git = RepositoryDiff(root).git
        head = git.commit_of(f"refs/heads/{branch}" if isinstance(branch, str) else "HEAD")
        if head is None or git.commit_of(base) is None:
            return []
        return git.line("rev-list", "--reverse", f"--max-count={COMMITS}", f"{base}..{head}", "--").split()
    except FaberError as error:
        notices.append(Notice(error.code, Severity.WARNING, f"Its commits are unknown: {error.message}"))
        return []


# --- both ------------------------------------------------------------------------------------------


def describe(root: str, nebula: Nebula, spec: PhaseSpec, failure: Failure, notices: list[Notice]) -> PhaseFailure:
    """The diagnosis of a first failure, with the partial work that git in `root` knows of; problems with that become
    `notices`."""
    diagnosis = analyze_failure(spec.id, *failure)
    work = _partial_work(root, failure.state, spec.id, notices)
    named = tuple(sorted({finding.file for finding in failure.state.findings if finding.is_open and finding.file}))
    return PhaseFailure(nebula, spec, replace(diagnosis, partial_work=work), 0, spec.id, notices, named)


def _partial_work(root: str, state: CycleState, phase: str, notices: list[Notice]) -> PartialWork | None:
    """The work of the failed phase; without its files, and with a notice, if git cannot list them."""
    try:
        asked = state.base_commit_sha and state.cycle_commits
        return build_partial_work(state, RepositoryDiff(root) if asked else None, phase_id=phase)
    except FaberError as error:
        text = f"The files that {phase} touched are unknown: {error.message}"
        notices.append(Notice(error.code, Severity.WARNING, text, error.recovery, phase))
        return build_partial_work(state, None, phase_id=phase)
