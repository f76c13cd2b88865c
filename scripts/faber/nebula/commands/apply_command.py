"""`faber nebula apply` and `land`, around the nebula itself: signals, the terminal, the agents, the answer."""

import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from faber.agents.client_kinds import KINDS, missing
from faber.agents.environment import in_slot
from faber.agents.outcome import Outcome, TurnResult, failure
from faber.console.arguments import require_person
from faber.console.invocation import Invocation
from faber.console.new_run import new_run_id
from faber.console.output import print_answer, print_json, say
from faber.errors import Exit, FaberError, InvalidInput
from faber.events.nebula_events import nebula_land
from faber.git.git_errors import GitFailed
from faber.model.documents import nebula_of, nebula_phases
from faber.nebula.phase.agents import ARCHITECT, AgentFactory
from faber.nebula.phase.filters import run_filters
from faber.nebula.plan.budgets import READINGS
from faber.nebula.plan.client_promises import PROMISES
from faber.nebula.plan.names import names_of, part
from faber.nebula.plan.nebula_files import load_nebula
from faber.nebula.plan.problems import NebulaProblem, require_valid
from faber.nebula.plan.specs import GATES, Nebula, PhaseSpec, other_client, with_clients
from faber.nebula.run.apply import Application, Caller, Crew
from faber.nebula.run.apply_options import Wanted
from faber.nebula.run.merged_phases import merged_phases, require_merged
from faber.nebula.run.recorder import Journal
from faber.nebula.run.run_of_nebula import NoNebulaRun, find_run
from faber.nebula.view.agent_log import KeptDisplay
from faber.nebula.view.display import LiveDisplay, PlainDisplay, noticed
from faber.nebula.worktrees.cleaning import remove_trees
from faber.nebula.worktrees.landing import land as land_nebula
from faber.nebula.worktrees.pool import Scratch, Worktrees
from faber.responses.llm import LLMClient
from faber.responses.recovery_log import RecoveryLog
from faber.text.credentials import secret_values
from faber.text.safe_text import redact, redact_json

if TYPE_CHECKING:
    from faber.nebula.cluster.leader import Fleet

# The gates, from the most freedom for agents to the least.
_FREEDOM = ("trust", "watch", "review", "approve")

Problems = Callable[[Invocation, Any], list[NebulaProblem]]


class NotLanded(FaberError):
    """The integration branch cannot be merged into the branch that the run started on; nothing was changed."""

    code = "not_landed"
    exit_code = Exit.REFUSED
    recovery = "Fix what the message names, then run `faber nebula land DIR` again."


def apply(
    obj: Invocation,
    directory: str,
    wanted: Wanted,
    *,
    problems: Problems,
    form: str,
    scheduler: str | None = None,
    remote: str = "origin",
) -> int:
    """Run the nebula: progress on stderr, the answer on stdout.

    With the address of a `scheduler`, a cluster works on the phases.
    """
    written = load_nebula(directory)
    nebula, found = _valid(obj, directory, problems, wanted)
    for problem in found:
        if problem.category in (*READINGS, *PROMISES):
            say(f"faber: {redact(problem.described())}")
    _not_freer(obj, written.nebula, wanted, directory)
    if wanted.max_budget_usd is not None and not any(KINDS[client].prices for client in nebula.clients):
        titles = " and ".join(KINDS[client].title for client in nebula.clients)
        raise InvalidInput(f"--max-budget-usd limits nothing: {titles} reports tokens and no dollars.")
    if scheduler is None:
        _require_clients(nebula.clients)
    with _cancelled_by_signals() as cancel, _fleet(scheduler, remote) as fleet, _display() as display:
        kept = KeptDisplay(display)
        caller = Caller(lambda: new_run_id(obj), obj.actor, kept, cancel)
        application = Application(obj.layout, nebula, directory, wanted, caller, fleet)

        def crew(run_id: str, label: str) -> Crew:
            secrets, config = secret_values(os.environ), os.environ.get("CLAUDE_CONFIG_DIR", "")
            kept.keep(obj.layout.agent_logs(run_id), secrets, config)
            return _crew(obj, nebula, caller, run_id, label)

        applied = application.run(crew)
    print_answer(redact_json(applied.report), form, lambda report: redact(_text(report)))
    return applied.exit_code


def land(obj: Invocation, directory: str, branch: str | None, *, problems: Problems) -> int:
    """Merge the integration branch into `branch`, by default the one that the run started on."""
    nebula, _ = _valid(obj, directory, problems)
    known = find_run(obj.layout, directory, nebula.name)
    if known.run_id is None or known.state is None or "nebula" not in known.state:
        raise NoNebulaRun("This nebula has no run here.", directory=directory)
    all_done = all(phase["status"] == "done" for phase in nebula_phases(known.state).values())
    if not all_done and not merged_phases(known.state):
        raise NotLanded(
            "No phase was merged, so there is nothing to land.",
            recovery=f"`faber nebula apply {directory} --resume --retry-failed` works on the phases that failed.",
        )
    worktrees = Worktrees(obj.layout, names_of(nebula.name, known.run_id), notice=lambda notice: say(noticed(notice)))
    cancel = threading.Event()

    def look(scratch: Scratch) -> None:
        checks = nebula.filters
        where = os.path.join(scratch.path, nebula.context.working_dir)
        for result in run_filters(checks, where, cancel=cancel, label="faber-land"):
            if not result.passed:
                raise NotLanded(
                    f"The filter {result.name} {result.detail} on the merge result.", output=result.output[-2000:]
                )

    with worktrees as beginning:
        again = "--resume --retry-failed" if known.open else "--fresh"
        target = branch or beginning.base_branch
        require_merged(known.state, worktrees, directory, again, lambda notice: say(noticed(notice)), landed=target)
        with in_slot(0):  # the filters
            landed = land_nebula(worktrees, target, look)
        phases = nebula_phases(known.state).items()
        with suppress(GitFailed):  # what stays is for `faber nebula clean`
            remove_trees(worktrees, busy=[part(name) for name, phase in phases if phase["status"] == "in_progress"])
    if not landed.done:
        raise NotLanded(f"Nothing was merged: {landed.reason}.", branch=landed.branch, files=list(landed.files))
    journal = Journal(obj.layout, known.run_id, directory, actor=obj.actor)
    recorded = nebula_of(known.state)
    if known.open and recorded and recorded["landed"] != landed.commit:
        journal.record(nebula_land(landed.commit, branch=landed.branch, how=landed.how))
    print_json({"run_id": known.run_id, "how": landed.how, "branch": landed.branch, "commit": landed.commit})
    return Exit.OK


def _require_clients(clients: list[str]) -> None:
    """Raise `ClientMissing` if there is nothing that starts the agents."""
    for client in missing(clients, os.environ):
        result = TurnResult(Outcome.CLIENT_MISSING, client=client)
        said = f"No {KINDS[client].title} client was found; nothing was started."
        raise failure(result._replace(error=said))


def _valid(
    obj: Invocation, directory: str, problems: Problems, wanted: Wanted | None = None
) -> tuple[Nebula, list[NebulaProblem]]:
    parsed = load_nebula(directory)
    if wanted is not None:
        parsed = parsed._replace(nebula=with_clients(parsed.nebula, wanted.agents, wanted.fallback))
    found = problems(obj, parsed)
    require_valid(found, directory)
    return parsed.nebula, found


def _not_freer(obj: Invocation, nebula: Nebula, wanted: Wanted, directory: str) -> None:
    """An agent must not give itself more freedom than the nebula gives it."""
    given = nebula.execution.gate
    assert set(_FREEDOM) == set(GATES)
    if wanted.gate is not None and _FREEDOM.index(wanted.gate) < _FREEDOM.index(given):
        require_person(obj, f"faber nebula apply {directory} --gate {wanted.gate}")
    if (client := other_client(nebula, wanted.agents, wanted.fallback)) is not None:
        require_person(obj, f"faber nebula apply {directory} --agents {client}")
    limit = nebula.execution.max_budget_usd
    if wanted.max_budget_usd is not None and limit is not None and wanted.max_budget_usd > limit:
        require_person(obj, f"faber nebula apply {directory} --max-budget-usd {wanted.max_budget_usd}")


def _crew(obj: Invocation, nebula: Nebula, caller: Caller, run_id: str, label: str) -> Crew:
    record = RecoveryLog(obj.layout, run_id=run_id).record
    factory = AgentFactory(nebula, label, hear=caller.display.heard, record=record)

    def architect(spec: PhaseSpec, budget: float) -> LLMClient:
        return factory.client(ARCHITECT, spec, obj.layout.root, budget, caller.cancel)

    return Crew(factory.agents, architect, record)


@contextmanager
def _fleet(scheduler: str | None, remote: str) -> "Iterator[Fleet | None]":
    if scheduler is None:
        yield None
        return
    from faber.nebula.cluster.dask_cluster import Cluster
    from faber.nebula.cluster.leader import Fleet

    options = f" --scheduler {scheduler}" + ("" if remote == "origin" else f" --remote {shlex.quote(remote)}")
    with Cluster.connect(scheduler) as cluster:
        yield Fleet(cluster, remote, options=options)


@contextmanager
def _cancelled_by_signals() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set; a second SIGINT interrupts at once."""
    cancel = threading.Event()

    def stop(number: int, frame: object) -> None:
        if cancel.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        cancel.set()
        say("faber: stopping: no new phase starts, running turns are ended, checkpoints are kept.")

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield cancel
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _display() -> LiveDisplay | PlainDisplay:
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        from rich.console import Console

        return LiveDisplay(Console(stderr=True))
    return PlainDisplay(say)


def _text(report: Mapping[str, Any]) -> str:
    marks = {"done": "✓", "failed": "✗", "skipped": "-", "in_progress": "…"}
    lines = []
    for name, phase in report["phases"].items():
        detail = phase.get("reason") or (f"{phase['cycle']} cycles" if "cycle" in phase else "")
        lines.append(f"{marks.get(phase['status'], ' ')} {name}  {phase['status']}  {detail}".rstrip())
    if report["healing"]:
        lines.append(report["healing"].rstrip())
    lines.append(f"{report['status']}, {report['cost_usd']:.2f} USD, run {report['run_id']}")
    lines += [f"next: {step}" for step in report["next_steps"]]
    return "\n".join(lines) + "\n"
