"""`faber sync …`: exchanging runs with other machines."""

from collections.abc import Callable, Mapping

import click
from click.core import ParameterSource

from faber.cli.run import bind_here
from faber.console.arguments import complete_run, require_person, run_named
from faber.console.invocation import Invocation
from faber.console.output import print_json
from faber.errors import Exit, FaberError, RunNotFound, UsageError
from faber.foreign.resolve import LATEST, resolve
from faber.git.git_errors import NoRepository
from faber.model.ids import check_run_id, is_run_id
from faber.store.layout import Layout
from faber.sync.bundle_file import export as write_bundle
from faber.sync.foreign_log import ContextQuestion
from faber.sync.importing import import_bundle
from faber.sync.pull import pull as take
from faber.sync.push import push as send
from faber.sync.refused_branch import Kept
from faber.sync.remotes import NOTHING_THERE, Listing, Remote, listing, open_remote
from faber.sync.sync_errors import RemoteUnknown
from faber.sync.sync_status import fetch_runs
from faber.sync.sync_status import status as stand
from faber.text.safe_text import redact_json


@click.group()
def sync() -> None:
    """Exchange runs with other machines through a git remote."""


run_argument = click.argument("run", metavar="[RUN]", required=False, shell_complete=complete_run)
remote_option = click.option(
    "--remote", "name", metavar="NAME", default="origin", show_default=True, help="The git remote."
)
timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(1, 3600),
    default=120,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of each git program.",
)
merge_option = click.option(
    "--merge", is_flag=True, help="If both copies advanced, one by answers only, append these answers to the other."
)


@sync.command("push")
@run_argument
@click.option("--all", "everything", is_flag=True, help="All runs of this store.")
@merge_option
@click.option(
    "--kept-in",
    metavar="WORDS",
    help="If the remote refuses the branch, push the run without it and ask a person; says where its commits are.",
)
@remote_option
@timeout_option
@click.pass_obj
def push(
    obj: Invocation, run: str | None, everything: bool, merge: bool, kept_in: str | None, name: str, timeout: float
) -> int:
    """Send RUN (default: latest) and its branch to the remote.

    Exit status 3 with --kept-in where the remote refused the branch, and a person was asked.
    """
    remote = _remote(obj, name, timeout)
    kept = Kept(kept_in, obj.writer) if kept_in else None
    if everything:
        _one_or_all(run)
        if kept:
            raise UsageError("--kept-in needs one RUN.")
        own = [run_id for run_id in obj.layout.run_ids() if obj.layout.own(obj.layout.find_run_dir(run_id) or "")]
        return _each(remote, own, lambda run_id: send(obj.layout, remote, run_id, merge=merge))
    run_id = resolve(obj.layout, run_named(obj, run))
    sent = send(obj.layout, remote, run_id, merge=merge, kept=kept)
    print_json({"remote": name, **sent})
    return Exit.PERSON_NEEDED if sent["refused"] else Exit.OK


@sync.command("pull")
@run_argument
@click.option("--all", "everything", is_flag=True, help="All runs on the remote.")
@merge_option
@click.option(
    "--park-mine",
    "park",
    is_flag=True,
    help="Take the remote's copy and move aside what only this one has (people only).",
)
@remote_option
@timeout_option
@click.pass_obj
def pull(obj: Invocation, run: str | None, everything: bool, merge: bool, park: bool, name: str, timeout: float) -> int:
    """Fetch RUN (default: latest) and its branch from the remote, and verify them."""
    remote = _remote(obj, name, timeout)
    if everything:
        _one_or_all(run)
        if park:
            raise UsageError("--park-mine needs one RUN.")
        there = listing(remote)
        fetch_runs(remote, there, there.runs)
        wanted = sorted(there.runs)
        before = set(obj.layout.run_ids())
        status = _each(
            remote, wanted, lambda run_id: take(obj.layout, remote, run_id, merge=merge, known=there, fetched=True)
        )
        new = set(obj.layout.run_ids()) - before
        if len(new) == 1:  # several may be everybody's; of one, the next session here is told
            bind_here(obj, new.pop())
        return status
    named = run_named(obj, run)
    there = _listed(obj.layout, remote, named)
    run_id = _resolve(obj.layout, there, named)
    if park:
        require_person(obj, "faber sync pull --park-mine", run_id)
    answer = {"remote": name, **take(obj.layout, remote, run_id, merge=merge, park=park, known=there)}
    bind_here(obj, run_id)
    print_json(answer)
    return Exit.OK


@sync.command("status")
@run_argument
@click.option("--all", "everything", is_flag=True, help="All runs, here and on the remote (the default).")
@remote_option
@timeout_option
@click.pass_obj
def status(obj: Invocation, run: str | None, everything: bool, name: str, timeout: float) -> None:
    """Compare RUN, or every run, with the remote. Changes no run."""
    if everything:
        _one_or_all(run)
    try:
        remote = _remote(obj, name, timeout)
    except (RemoteUnknown, NoRepository) as error:
        if click.get_current_context().get_parameter_source("name") is not ParameterSource.DEFAULT:
            raise
        print_json(_without_remote(obj.layout, run, error))
        return
    there = _listed(obj.layout, remote, run)
    wanted = [_resolve(obj.layout, there, run_named(obj, run))] if run else sorted({*obj.layout.run_ids(), *there.runs})
    fetch_runs(remote, there, wanted)
    found = [stand(obj.layout, remote, run_id, there) for run_id in wanted]
    print_json({"remote": name, "runs": found, "not_runs": there.odd})


@sync.command("export")
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.argument("file", metavar="FILE")
@remote_option
@timeout_option
@click.pass_obj
def export(obj: Invocation, run: str, file: str, name: str, timeout: float) -> None:
    """Write what the remote lacks of RUN and its branch to FILE, a git bundle. Asks no remote."""
    run_id = resolve(obj.layout, run_named(obj, run))
    print_json({"remote": name, **write_bundle(obj.layout, _remote(obj, name, timeout), run_id, file)})


@sync.command("import")
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.argument("file", metavar="FILE")
@remote_option
@timeout_option
@click.pass_obj
def import_file(obj: Invocation, run: str, file: str, name: str, timeout: float) -> None:
    """Add to RUN, and its branch, what an agent did on another machine: the bundle FILE, checked as its work alone."""
    run_id = resolve(obj.layout, run_named(obj, run))
    remote = _remote(obj, name, timeout)
    from faber.context.questions import QUESTIONS

    questions = {code: ContextQuestion(asked.prompt, list(asked.options)) for code, asked in QUESTIONS.items()}
    taken = import_bundle(obj.layout, remote, run_id, file, seconds=timeout, questions=questions)
    print_json({"remote": name, **taken})


def _without_remote(layout: Layout, run: str | None, error: FaberError) -> dict[str, object]:
    """This machine's runs, why there is nothing to compare them with, and what to do about it."""
    wanted = [resolve(layout, run)] if run else sorted(layout.run_ids())
    return {
        "remote": None,
        "known": error.fields.get("known", []),
        "why": error.message,
        "recovery": error.recovery,
        "runs": [stand(layout, None, run_id, NOTHING_THERE) for run_id in wanted],
        "not_runs": [],
    }


def _remote(obj: Invocation, name: str, timeout: float) -> Remote:
    return open_remote(obj.layout.root, name, seconds=timeout)


def _one_or_all(run: str | None) -> None:
    if run is not None:
        raise UsageError("Give either RUN or --all.")


def _listed(layout: Layout, remote: Remote, run: str | None) -> Listing:
    """What is on the remote; of a run with a complete id, only that run."""
    whole = run is not None and is_run_id(run) and (layout.find_run_dir(run) is not None or run.count("/") == 2)
    return listing(remote, run if whole else None)


def _resolve(layout: Layout, there: Listing, run: str) -> str:
    """The id of the run that `run` names, here or on the remote."""
    if run in there.runs:
        return run
    try:
        return resolve(layout, run)
    except RunNotFound:
        if run == LATEST:
            raise
    matches = [run_id for run_id in there.runs if check_run_id(run) in run_id]
    if len(matches) == 1:
        return matches[0]
    raise RunNotFound(
        f"There is no run {run!a}, here or on the remote." if not matches else f"{run!a} matches {len(matches)} runs.",
        run_id=run,
        candidates=sorted(matches)[:20],
        recovery="`faber sync status` lists the runs here and on the remote.",
    )


def _each(remote: Remote, run_ids: list[str], act: Callable[[str], Mapping[str, object]]) -> int:
    """Act on every run and print one answer; the exit status is that of the first failure."""
    done: list[Mapping[str, object]] = []
    worst = int(Exit.OK)
    for run_id in run_ids:
        try:
            done.append(act(run_id))
        except FaberError as error:
            done.append({"run_id": run_id, "result": "failed", "error": error.as_dict()})
            worst = worst or int(error.exit_code)
    print_json(redact_json({"remote": remote.name, "runs": done}))
    return worst
