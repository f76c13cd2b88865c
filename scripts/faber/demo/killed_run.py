"""`faber demo`: a sample project whose run is really killed, and then reconstituted.

A child process works through the run with ordinary commands and is ended with SIGKILL in the middle of its build
phase. What is printed after that comes from `faber context` alone.
"""

import json
import os
import signal
import time

import click

from faber.demo.sample import LAUNCHER, announce, commit_all, copy_sample, git, make_place, run_faber, sample
from faber.errors import FaberError
from faber.processes.stdout import write
from faber.store.layout import Layout

BRANCH = "feat/158-csv-export"
RUN_ID = "sample/report-tool/demo"
WORK_ID = "158"
SAMPLE = "killed-run"


@click.command()
@click.option("--directory", metavar="DIR", help="Where to create the sample. Default: a new temporary directory.")
@click.option("--heal", is_flag=True, help="Watch a nebula instead, whose phase fails and is healed (uses no model).")
def demo(directory: str | None, heal: bool) -> None:
    """Watch a run that was killed in its build phase being resumed, in a sample project."""
    project = make_place(directory)
    if heal:
        from faber.demo.healed_phase import show_healing

        show_healing(project)
        return
    announce(f"Creating a sample project in {project}")
    _history(project)
    run_faber(project, ["run", "init", "--work-id", WORK_ID, "--run-id", RUN_ID])
    announce(f"An agent (a process of its own) works on run {RUN_ID} …")
    pid = _work_until_killed(project)
    announce(f"… and is killed with SIGKILL in the middle of build:implement (process {pid}).")
    announce("Its session is gone. This is what the next one gets from `faber context latest`:\n")
    write(run_faber(project, ["context", "latest", "--format", "text"]))
    write(
        f"\nExplore further:\n"
        f"  cd {project}\n"
        f"  {LAUNCHER} context latest          # the JSON that an agent gets\n"
        f"  {LAUNCHER} status latest           # phases and steps\n"
        f"  {LAUNCHER} event list latest       # the log\n"
        f"  {LAUNCHER} step complete latest build:implement\n"
    )


def _history(project: str) -> None:
    """A repository with a default branch, and a branch for the work."""
    git(project, "init", "-q", "-b", "main")
    copy_sample(project, SAMPLE, "1-print-reports")
    work_items = Layout(project).work_items
    os.makedirs(work_items)
    with open(os.path.join(work_items, f"{WORK_ID}.json"), "w", encoding="utf-8") as file:
        file.write(sample(SAMPLE, "issue.json"))
    commit_all(project, "Print reports")
    git(project, "checkout", "-q", "-b", BRANCH)
    copy_sample(project, SAMPLE, "2-specify")
    commit_all(project, "Specify the CSV export")
    copy_sample(project, SAMPLE, "3-write-rows")
    commit_all(project, "Write header and rows")


def _work_until_killed(project: str) -> int:
    """Let a child play the agent, and kill it while it writes report.py."""
    writing = os.path.join(project, ".git", "agent-is-writing")
    child = os.fork()
    if child == 0:
        try:
            for command in json.loads(sample(SAMPLE, "agent.json")):
                run_faber(project, command["arguments"], command.get("stdin"))
            copy_sample(project, SAMPLE, "4-killed")
            os.close(os.open(writing, os.O_CREAT | os.O_WRONLY, 0o600))
            time.sleep(600)
        except BaseException as error:  # noqa: BLE001 - a child must never return into its parent's code
            os.write(2, f"{error}\n".encode())
        os._exit(1)
    while not os.path.exists(writing):
        done, _ = os.waitpid(child, os.WNOHANG)
        if done:
            raise FaberError("The sample's agent ended before it could be killed.")
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.unlink(writing)
    return child
