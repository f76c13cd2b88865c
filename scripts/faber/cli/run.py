"""`faber run …`: creating, listing and ending runs."""

import os

import click

from faber.console.arguments import limit_option, next_option, only_run_argument, require_person, run_argument
from faber.console.invocation import Invocation
from faber.console.new_run import new_run_id
from faber.console.output import print_json
from faber.console.recorded_answer import handed_out, record
from faber.context.resume import run_position
from faber.errors import AmbiguousRun, InvalidInput
from faber.events.drafts import Draft
from faber.events.record_events import context_loaded
from faber.events.workflow_events import workflow_rerun
from faber.foreign.resolve import open_named, resolve
from faber.foreign.run_rows import list_runs, open_for
from faber.foreign.unadopted import check_repeatable
from faber.git.repository import find
from faber.model import commands
from faber.model.documents import AUTONOMY_LEVELS, CLOSED, RUN_STATUSES, Autonomy
from faber.model.ids import check_new_run_id, check_work_id, looks_like_work_id
from faber.store import index
from faber.store.config import load_config
from faber.store.files import make_directories
from faber.store.load import Run
from faber.store.lock import locked
from faber.store.store_errors import RunExists

autonomy_option = click.option(
    "--autonomy", type=click.Choice(AUTONOMY_LEVELS), help="What agents may do on their own. Default: from config.yaml."
)


@click.group()
def run() -> None:
    """Create, list and end runs."""


@run.command("init")
@click.option("--work-id", metavar="ID", help="The work item to work on.")
@click.option("--target", metavar="TEXT", help="The goal of a run without a work item.")
@click.option("--workflow", metavar="NAME|FILE", help="The workflow. Default: from config.yaml.")
@autonomy_option
@click.option("--run-id", metavar="ID", help="The new run's id. Default: ORG/PROJECT/UUID, from the git remote.")
@click.pass_obj
def init(
    obj: Invocation,
    work_id: str | None,
    target: str | None,
    workflow: str | None,
    autonomy: Autonomy | None,
    run_id: str | None,
) -> None:
    """Create a run and freeze its plan."""
    if target is not None and not 0 < len(target.strip()) <= 2_000:
        raise InvalidInput("--target must have 1 to 2000 characters.")
    made = _create(obj, work_id, target, workflow, autonomy, check_new_run_id(run_id) if run_id is not None else None)
    print_json(_created(obj, made))


def _create(
    obj: Invocation,
    work_id: str | None,
    target: str | None,
    workflow: str | None,
    autonomy: Autonomy | None,
    run_id: str | None,
    first: Draft | None = None,
) -> Run:
    from faber.store.create import NewRun, create_run
    from faber.workflows.definitions import load_plan

    config = load_config(obj.layout)
    _not_freer(obj, autonomy, config.at("autonomy"), run_id or "")
    made = create_run(
        obj.layout,
        NewRun(
            run_id=run_id if run_id is not None else new_run_id(obj),
            plan=load_plan(obj.layout, config.at("workflow") if workflow is None else workflow),
            work_id=check_work_id(work_id) if work_id is not None else None,
            target=target,
            autonomy=autonomy or config.at("autonomy"),
            created_by=obj.actor,
            first=first,
        ),
    )
    bind_here(obj, made.run_id)
    return made


def _not_freer(obj: Invocation, wanted: Autonomy | None, given: Autonomy, run: str) -> None:
    """An agent must not give itself more freedom than the project, or the earlier run, gives it."""
    if wanted is not None and AUTONOMY_LEVELS.index(wanted) > AUTONOMY_LEVELS.index(given):
        require_person(obj, f"--autonomy {wanted}", run or None)


def _created(obj: Invocation, made: Run) -> dict[str, object]:
    return {
        **run_position(made, obj.session_id),
        "directory": made.directory,
        "workflow_id": made.plan["workflow_id"],
    }


@run.command("begin")
@click.argument("words", nargs=-1, required=True)
@click.option("--workflow", metavar="NAME|FILE", help="The workflow of a new run. Default: from config.yaml.")
@autonomy_option
@next_option
@click.pass_obj
def begin(
    obj: Invocation, words: tuple[str, ...], *, workflow: str | None, autonomy: Autonomy | None, following: bool
) -> None:
    """Continue the open run for a work item (158, #158, PROJ-7) or a target in words, or create one."""
    text = " ".join(words).strip()
    if not 0 < len(text) <= 2_000:
        raise InvalidInput("A work item or target must have 1 to 2000 characters.")
    work_id = check_work_id(text) if looks_like_work_id(text) else None
    # Two of these at the same time for one work item must create one run.
    make_directories(obj.layout.index)
    with locked(obj.layout.beginning):
        same = open_for(obj.layout, work_id, text)
        if len(same) > 1:
            names = [made.run_id for made in same]
            raise AmbiguousRun(
                f"{len(same)} runs are open for {text[:100]!a}: {', '.join(names)}.",
                candidates=names,
                recovery="Ask the person which run to continue.",
            )
        made = (
            same[0]
            if same
            else _create(obj, work_id, None if work_id else text, workflow, autonomy, None, _loaded(obj))
        )
        if same:
            _bind_unless_held(obj, made)
    answer = handed_out(obj, made) if following else _created(obj, made)
    print_json({**answer, "continued": bool(same)})


def _loaded(obj: Invocation) -> Draft | None:
    """The first event of a run that a session creates: there is nothing about it that the session must load."""
    by = obj.writer
    if by.session_id is None or by.client is None:
        return None
    return {**context_loaded(()), "session_id": by.session_id, "actor": obj.actor, "client": by.client}


def bind_here(obj: Invocation, run_id: str) -> None:
    """Make this run the one that this worktree and this session resume."""
    repository = find(os.getcwd())
    index.bind(obj.layout, index.WORKTREES, (repository and repository.top) or obj.layout.root, run_id)
    if obj.session_id:
        index.bind(obj.layout, index.SESSIONS, obj.session_id, run_id)


def _bind_unless_held(obj: Invocation, made: Run) -> None:
    """Bind worktree and session to the run, unless another session works on it: this one will be told to wait."""
    from faber.steps.holding import held_by_another

    if not held_by_another(obj.layout, obj.session_id, made.state):
        bind_here(obj, made.run_id)


@run.command("list")
@click.option("--status", type=click.Choice(RUN_STATUSES), help="Only runs with this status.")
@limit_option(default=None)
@click.pass_obj
def show_runs(obj: Invocation, status: str | None, limit: int | None) -> None:
    """List all runs, the most recently active first; damaged ones with their error."""
    found = list_runs(obj.layout, (status,) if status else RUN_STATUSES, limit)
    print_json({"runs": found.runs, "damaged": [] if status else found.damaged, "more": found.more})


@run.command("show")
@run_argument
@click.pass_obj
def show(obj: Invocation, run: str) -> None:
    """Show a run's metadata, plan and state."""
    made = open_named(obj.layout, run)
    print_json(
        {
            "run_id": made.run_id,
            "directory": made.directory,
            "foreign": made.foreign,
            "metadata": made.metadata,
            "plan": made.plan,
            "state": made.state,
            "warnings": [notice.as_dict() for notice in made.notices],
        }
    )


@run.command("resume")
@run_argument
@next_option
@click.pass_obj
def resume(obj: Invocation, run: str, *, following: bool) -> None:
    """Start a pending run, or resume one that failed or was abandoned. An agent may not resume a failed run."""
    from faber.steps.holding import after_failure, resuming

    made = open_named(obj.layout, run)
    _bind_unless_held(obj, made)
    resumes = after_failure(resuming(obj.layout, obj.session_id, commands.resume_run), agent=not obj.is_person)
    record(obj, made, resumes, following=following)


@run.command("complete")
@only_run_argument
@click.pass_obj
def complete(obj: Invocation, run: str) -> None:
    """Complete a run whose steps are all complete."""
    record(obj, run, commands.complete_run)


@run.command("fail")
@only_run_argument
@click.option("--error", metavar="M", required=True, help="Why (2,000 characters).")
@click.pass_obj
def fail(obj: Invocation, run: str, error: str) -> None:
    """Mark a run as failed; it stops until it is resumed."""
    record(obj, run, lambda state, plan: commands.fail_run(state, plan, error), work=True)


@run.command("cancel")
@only_run_argument
@click.option("--reason", metavar="TEXT", required=True, help="Why (2,000 characters).")
@click.pass_obj
def cancel(obj: Invocation, run: str, reason: str) -> None:
    """End a run for good. While a request is open, only a person may."""
    made = open_named(obj.layout, run)
    if made.state["feedback_queue"]:
        require_person(obj, "faber run cancel", run)
    record(obj, made, lambda state, plan: commands.cancel_run(state, plan, reason))


@run.command("rerun")
@run_argument
@autonomy_option
@click.pass_obj
def rerun(obj: Invocation, run: str, autonomy: Autonomy | None) -> None:
    """Create a run with the plan of an earlier one, linked to it."""
    from uuid import uuid4

    from faber.store.create import NewRun, create_run

    earlier = open_named(obj.layout, run)
    if earlier.state["status"] not in (*CLOSED, "failed"):
        raise RunExists(
            f"Run {earlier.run_id} is still {earlier.state['status']}.",
            status=earlier.state["status"],
            recovery=f"Continue it (`faber context {earlier.run_id}`), or cancel it first.",
        )
    check_repeatable(earlier)
    _not_freer(obj, autonomy, earlier.state["autonomy"], earlier.run_id)
    prefix, _, last = earlier.run_id.rpartition("/")
    base = f"{prefix}/" if prefix else f"{last[:80].rstrip('.-_')}-"
    made = create_run(
        obj.layout,
        NewRun(
            run_id=f"{base}{uuid4()}",
            plan=earlier.plan,
            work_id=earlier.state["work_id"],
            target=earlier.state["target"],
            autonomy=autonomy or earlier.state["autonomy"],
            created_by=obj.actor,
            relationships={"rerun_of": earlier.run_id},
            first=workflow_rerun(earlier.run_id, actor=obj.actor),
        ),
    )
    bind_here(obj, made.run_id)
    print_json({**run_position(made, obj.session_id), "directory": made.directory, "rerun_of": earlier.run_id})


@run.command("takeover")
@only_run_argument
@click.option("--reason", metavar="TEXT", help="Why (2,000 characters).")
@click.pass_obj
def takeover(obj: Invocation, run: str, reason: str | None) -> None:
    """Take a run from the session that works on it, so that another one can continue (people only)."""
    require_person(obj, "faber run takeover", run)
    record(obj, run, lambda state, plan: commands.release_run(state, plan, reason))


@run.command("adopt")
@only_run_argument
@click.option("--workflow", metavar="NAME|FILE", help="What the phases hold that the run's state does not list.")
@click.pass_obj
def adopt(obj: Invocation, run: str, workflow: str | None) -> None:
    """Take over a run that another tool created (people only); its files are kept.

    `assumed` in the answer says phase by phase which steps the run is taken to have, and where they are from.
    """
    require_person(obj, "faber run adopt", run)
    from faber.foreign.adopt import adopt as take_over
    from faber.workflows.definitions import load_plan

    plan = load_plan(obj.layout, workflow) if workflow is not None else None
    made, assumed = take_over(obj.layout, resolve(obj.layout, run), workflow=plan, actor=obj.actor)
    print_json({**run_position(made, obj.session_id), "directory": made.directory, "assumed": assumed})
