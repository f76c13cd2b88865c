"""What interruptions cost a real model, with and without faber. Read trial-protocol.md first.

    trial.py plan --seeds 5 --start-usd 0.5             # the runs, and what they may cost; asks nobody
    trial.py run --results FILE --base-url URL --key-from VARIABLE --model NAME --cap-usd 40 --seeds 5
    trial.py report --results FILE [--json]             # the figures so far

`run` drives the client that `--client` names (default: `claude` on PATH) against the endpoint that you name, with the
key from the variable that you name, in throw-away homes and projects. It gives the agents a shell: run it in a
container. It can be stopped at any moment, also by SIGKILL; the same command continues it. It stops before a run
that could exceed `--cap-usd`.

Exit status: 0 when all runs are done, 3 when the cap stopped it, 4 when runs stayed void or three in a row were, 1 with
one line on stderr.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "scripts"))

from trials import figures, schedule, tasks  # noqa: E402
from trials.conduct import conduct  # noqa: E402
from trials.header import Refused, check, header, protocol, variables  # noqa: E402
from trials.results import OtherTrial, Results, alone, read  # noqa: E402
from trials.session import Setup  # noqa: E402

from environment import place_of  # noqa: E402 - it stands where the line above leads
from faber.agents.versions import parse, spelled  # noqa: E402

STOPPED, VOID = 3, 4
VOIDS = 2  # times that a run is repeated because the endpoint refused
DOWN = 3  # void runs in a row: the next ones would be void, too
# The plugin. What else lies in its folder no agent gets to see: the tasks' verifiers and solutions, maybe results.
PLUGIN = (
    ".claude-plugin", "agents", "bin", "examples", "hooks", "monitors", "requirements.lock", "scripts", "skills",
    "workflows",
)  # fmt: skip
Conduct = Callable[[schedule.Planned, Setup, Path], dict[str, Any]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    given = _arguments(arguments)
    try:
        if given.command == "report":
            return _report(given)
        check(given)
        return _plan(given) if given.command == "plan" else _run(given)
    except (Refused, OtherTrial, OSError) as problem:
        print(f"trial.py: {problem}", file=sys.stderr)
        return 1


def trial(
    planned: Sequence[schedule.Planned], setup: Setup, results: Results, cap_usd: float, do: Conduct, directory: Path
) -> int:
    """Do the runs that are not done, in order; returns the exit status."""
    void = in_a_row = 0
    for number, run in enumerate(planned):
        if run.key in results.done:
            continue
        if results.voids(run.key) > VOIDS:
            void += 1
            continue
        bound = run.starts * setup.start_usd
        if results.charged_usd + bound > cap_usd + 1e-9:
            left = cap_usd - results.charged_usd
            words = f"stopped: {run.key} could cost ${bound:.2f}, and ${left:.4f} of ${cap_usd:.2f} is left"
            print(f"{words}; the same command with a higher --cap-usd continues", file=sys.stderr)
            return STOPPED
        results.add({"kind": "started", "run": run.key, "bound_usd": bound})
        attempt = sum(line["kind"] == "started" and line["run"] == run.key for line in results.lines)
        came = do(run, setup, directory / f"{number}.{attempt}")
        about = {"task": run.task.name, "seed": run.seed, "arm": run.arm.name, "protocol": protocol()}
        results.add({"kind": "finished", "run": run.key, **about, **came})
        void += bool(came["void"])
        said = f"void: {came['void']}" if came["void"] else "solved" if came["solved"] else "not solved"
        print(f"{run.key}: {said}, ${came['charged_usd']:.2f}", file=sys.stderr)
        in_a_row = in_a_row + 1 if came["void"] else 0
        if in_a_row == DOWN:
            print(f"stopped: {DOWN} runs in a row were void; the same command continues", file=sys.stderr)
            break
    return VOID if void else 0


def _plan(given: argparse.Namespace) -> int:
    planned = _planned(given)
    for run in planned:
        words = ", ".join(f"{point.kind} after {point.after}" for point in run.points)
        print(f"{run.key:40}{words}".rstrip())
    print(_priced(planned, given.start_usd))
    return 0


def _priced(planned: Sequence[schedule.Planned], start_usd: float) -> str:
    """What the runs may cost, and why it may be more."""
    starts = sum(run.starts for run in planned)
    words = (
        f"{len(planned)} runs: {starts} starts of the client if every interruption is reached, {len(planned)} if none "
        f"is. ${starts * start_usd:.2f} if each of the {starts} spends its ${start_usd:.2f} (--start-usd). It may be "
        "more: the client looks after each response, so that a start can exceed this by its last one, and a void run "
        f"is repeated, up to {VOIDS} times. No run begins for which too little of --cap-usd is left."
    )
    return textwrap.fill(words, 80)


def _run(given: argparse.Namespace) -> int:
    key = os.environ.get(given.key_from)
    if not key:
        raise Refused(f"the variable {given.key_from} holds no key")
    client = shutil.which(given.client)
    if client is None:
        raise Refused(f"there is no client {given.client}; tests/fetch_client.py fetches the pinned one")
    version = _version(client)
    if "@" in given.base_url:
        raise Refused("the endpoint's URL must not hold a password: it is kept in the results")
    extra = variables(given.variable)
    place = place_of(ROOT / "requirements.lock", "venv", os.environ.get("FABER_VENV"))
    if not place.usable():
        raise Refused("faber's environment is not built; run `bin/faber --version` once")
    if not any(name.upper().endswith("_PROXY") for name in extra):
        _reach(given.base_url)
    with alone(Path(given.results)), tempfile.TemporaryDirectory(prefix="faber-trial-") as directory:
        plugin = _plugin(Path(directory) / "plugin")
        results = Results(Path(given.results), header(given, version, plugin, key))
        results.add({"kind": "begun", "cap_usd": given.cap_usd})
        setup = Setup(
            client=client,
            base_url=given.base_url,
            model=given.model,
            key=key,
            key_variable="ANTHROPIC_AUTH_TOKEN" if given.bearer else "ANTHROPIC_API_KEY",
            plugin=plugin,
            start_usd=given.start_usd,
            minutes=given.minutes,
            extra={"FABER_VENV": str(place.directory), **extra},
        )
        return trial(_planned(given), setup, results, given.cap_usd, conduct, Path(given.keep or directory))


def _report(given: argparse.Namespace) -> int:
    lines = read(Path(given.results))
    if not lines:
        raise Refused(f"{given.results} has no results")
    if [line for line in lines if line["kind"] == "trial"] != lines[:1]:
        raise Refused(
            f"{given.results} is not of one trial: its first line, and no other, has to say what the trial is"
        )
    found = figures.figures(lines)
    seen = {line["protocol"] for line in lines if "protocol" in line} | {protocol()}
    notes = [] if len(seen) == 1 else ["THE PROTOCOL WAS CHANGED after the first run: these figures are exploratory."]
    found["protocol_changed"] = bool(notes)
    print(json.dumps(found, indent=2) if given.json else figures.text(found, notes), end="\n" if given.json else "")
    return 0


def _planned(given: argparse.Namespace) -> list[schedule.Planned]:
    return list(schedule.runs([tasks.load(name) for name in given.tasks], given.seeds, given.interruptions))


def _reach(url: str) -> None:
    """Refuse an endpoint to which nothing connects: a client would try again for minutes, in every run."""
    try:
        there = urlsplit(url)
        if not there.hostname:
            raise ValueError
        port = there.port or {"http": 80, "https": 443}[there.scheme]
        socket.create_connection((there.hostname, port), timeout=20).close()
    except (KeyError, ValueError):
        raise Refused(f"{url} is no http:// or https:// URL") from None
    except OSError as problem:
        raise Refused(f"nothing answers at {there.hostname}:{port}: {problem.strerror or problem}") from None


def _plugin(target: Path) -> Path:
    """A copy of the plugin without what agents must not see."""
    target.mkdir()
    for name in PLUGIN:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, symlinks=True)
        else:
            shutil.copy(source, target)
    return target


def _version(client: str) -> str:
    bare = {"PATH": os.environ.get("PATH", os.defpath), "HOME": os.devnull, "DISABLE_AUTOUPDATER": "1"}
    done = subprocess.run([client, "--version"], env=bare, capture_output=True, text=True, timeout=60, check=False)
    found = parse(done.stdout.strip())
    if found is None:
        raise Refused(f"{client} names no version of Claude Code")
    return spelled(found)


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    commands = words.add_subparsers(dest="command", required=True)
    plan = commands.add_parser("plan", help="print the runs and what they may cost")
    run = commands.add_parser("run", help="do the runs that are not done")
    report = commands.add_parser("report", help="print the figures")
    for each in (plan, run):
        each.add_argument("--seeds", type=int, default=5, metavar="N", help="seeds 1 to N")
        each.add_argument("--tasks", nargs="+", choices=tasks.names(), default=tasks.names(), metavar="TASK")
        each.add_argument("--interruptions", type=int, default=2, metavar="N", help="in each interrupted run")
        each.add_argument("--start-usd", type=float, default=1.0, metavar="USD", help="what one start may spend")
    for each in (run, report):
        each.add_argument("--results", required=True, metavar="FILE", help="JSON Lines")
    run.add_argument("--base-url", required=True, metavar="URL", help="the endpoint: a Messages API")
    run.add_argument("--key-from", required=True, metavar="VARIABLE", help="the variable that holds the key")
    run.add_argument("--bearer", action="store_true", help="the key is a bearer token")
    run.add_argument("--model", required=True, metavar="NAME")
    run.add_argument("--client", default="claude", metavar="PROGRAM", help="Claude Code")
    run.add_argument("--cap-usd", type=float, required=True, metavar="USD", help="what all runs may cost")
    run.add_argument("--minutes", type=float, default=30.0, help="that one run may take")
    run.add_argument("--keep", metavar="DIR", help="keep each run's project and transcripts, with what agents printed")
    variable = run.add_argument("--variable", action="append", default=[], metavar="NAME=VALUE")
    variable.help = "another of the client's, kept in the results"
    report.add_argument("--json", action="store_true", help="for a program")
    return words.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
