"""`faber sync …`: runs that move between machines."""

from collections.abc import Callable

import click

from faber.cli.app import Invocation
from faber.cli.arguments import require_person
from faber.cli.output import print_json
from faber.errors import Exit, FaberError, RunNotFound, UsageError
from faber.foreign.resolve import LATEST, resolve
from faber.model.ids import check_run_id, is_run_id
from faber.store.layout import Layout
from faber.sync.remotes import Listing, Remote, listing, open_remote


@click.group()
def sync() -> None:
    """Move runs between machines, through a git remote."""


run_argument = click.argument("run", metavar="RUN", required=False)
remote_option = click.option("--remote", "name", metavar="NAME", default="origin", show_default=True, help="A remote.")
timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(1, 3600),
    default=120,
    show_default=True,
    metavar="SECONDS",
    help="How long each git program may take.",
)
merge_option = click.option(
    "--merge", is_flag=True, help="Where both copies went on, one with answers only: append these again."
)


@sync.command("push")
@run_argument
@click.option("--all", "everything", is_flag=True, help="Every run of this store.")
@merge_option
@remote_option
@timeout_option
@click.pass_obj
def push(obj: Invocation, run: str | None, everything: bool, merge: bool, name: str, timeout: float) -> int:
    """Send RUN (default: latest) and its branch to the remote, or refuse and say why."""
    from faber.sync.push import push as send

    remote = _remote(obj, name, timeout)
    if everything:
        _one_or_all(run)
        own = [run_id for run_id in obj.layout.run_ids() if obj.layout.own(obj.layout.find_run_dir(run_id) or "")]
        return _each(remote, own, lambda run_id: send(obj.layout, remote, run_id, merge=merge))
    run_id = resolve(obj.layout, run or LATEST)
    print_json({"remote": name, **send(obj.layout, remote, run_id, merge=merge)})
    return Exit.OK


@sync.command("pull")
@run_argument
@click.option("--all", "everything", is_flag=True, help="Every run of the remote.")
@merge_option
@click.option(
    "--park-mine", "park", is_flag=True, help="Take the remote's copy; set what only this one has aside (people only)."
)
@remote_option
@timeout_option
@click.pass_obj
def pull(obj: Invocation, run: str | None, everything: bool, merge: bool, park: bool, name: str, timeout: float) -> int:
    """Bring RUN (default: latest) and its branch here, verified, or refuse and say why."""
    from faber.sync.pull import pull as take

    remote = _remote(obj, name, timeout)
    if everything:
        from faber.sync.sync_status import fetch_runs

        _one_or_all(run)
        if park:
            raise UsageError("--park-mine is for one run.")
        there = listing(remote)
        fetch_runs(remote, there, there.runs)
        wanted = sorted(there.runs)
        return _each(
            remote, wanted, lambda run_id: take(obj.layout, remote, run_id, merge=merge, known=there, fetched=True)
        )
    there = _listed(obj.layout, remote, run or LATEST)
    run_id = _resolve(obj.layout, there, run or LATEST)
    if park:
        require_person(obj, "faber sync pull --park-mine", run_id)
    print_json({"remote": name, **take(obj.layout, remote, run_id, merge=merge, park=park, known=there)})
    return Exit.OK


@sync.command("status")
@run_argument
@click.option("--all", "everything", is_flag=True, help="Every run, here and at the remote (the default).")
@remote_option
@timeout_option
@click.pass_obj
def status(obj: Invocation, run: str | None, everything: bool, name: str, timeout: float) -> None:
    """Show how RUN, or every run, stands here and at the remote; changes no run."""
    from faber.sync.sync_status import fetch_runs
    from faber.sync.sync_status import status as stand

    if everything:
        _one_or_all(run)
    remote = _remote(obj, name, timeout)
    there = _listed(obj.layout, remote, run)
    wanted = [_resolve(obj.layout, there, run)] if run else sorted({*obj.layout.run_ids(), *there.runs})
    fetch_runs(remote, there, wanted)
    found = [stand(obj.layout, remote, run_id, there) for run_id in wanted]
    print_json({"remote": name, "runs": found, "not_runs": there.odd})


def _remote(obj: Invocation, name: str, timeout: float) -> Remote:
    return open_remote(obj.layout.root, name, seconds=timeout)


def _one_or_all(run: str | None) -> None:
    if run is not None:
        raise UsageError("Name a run or give --all, not both.")


def _listed(layout: Layout, remote: Remote, run: str | None) -> Listing:
    """What the remote holds; of a run that is spelled whole only that."""
    whole = run is not None and is_run_id(run) and (layout.find_run_dir(run) is not None or run.count("/") == 2)
    return listing(remote, run if whole else None)


def _resolve(layout: Layout, there: Listing, run: str) -> str:
    """The run id that `run` means, here or at the remote."""
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
        f"No run {run!a}, neither here nor at the remote." if not matches else f"{run!a} fits {len(matches)} runs.",
        run_id=run,
        candidates=sorted(matches)[:20],
        recovery="`faber sync status` lists the runs, here and at the remote.",
    )


def _each(remote: Remote, run_ids: list[str], act: Callable[[str], dict[str, object]]) -> int:
    """Do it for every run and print one answer for all; ends as the first that failed did."""
    done: list[dict[str, object]] = []
    worst = int(Exit.OK)
    for run_id in run_ids:
        try:
            done.append(act(run_id))
        except FaberError as error:
            done.append({"run_id": run_id, "result": "failed", "error": error.as_dict()})
            worst = worst or int(error.exit_code)
    from faber.model.text import redact_json

    print_json(redact_json({"remote": remote.name, "runs": done}))
    return worst
