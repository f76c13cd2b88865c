"""The trial without a client: what is drawn, kept, capped, counted and reported."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trial
from trials import figures, header, schedule, tasks
from trials.conduct import Run
from trials.results import OtherTrial, Results, alone, charged, read
from trials.schedule import ARMS, Planned
from trials.session import Setup
from trials.tally import Tally

SETUP = Setup("claude", "http://127.0.0.1:1", "m", "key", start_usd=1.0)
CAME = {
    "solved": True, "findings": [], "points": [], "ended": "done", "void": "", "answers": [], "work_calls": 5,
    "faber_calls": 0, "repeated_calls": 0, "responses": 6, "denied": 0, "peeked": False, "turns": 2,
    "unpriced_turns": 0, "cost_usd": 0.25, "charged_usd": 0.25, "seconds": 1.0,
}  # fmt: skip
LOADED = [tasks.load(name) for name in tasks.names()]


def planned(seeds: int = 1, count: int = 2, names: int = 6) -> list[Planned]:
    """A trial's runs."""
    return list(schedule.runs(LOADED[:names], seeds, count))


def test_both_interrupted_arms_get_the_same_interruptions() -> None:
    """Each task and seed has all four arms; the interrupted two share kinds and places, which a seed repeats and
    another seed changes."""
    found: dict[tuple[str, int], dict[str, Planned]] = {}
    for run in planned(seeds=4):
        found.setdefault((run.task.name, run.seed), {})[run.arm.name] = run
    assert len(found) == 24
    for block in found.values():
        assert set(block) == {arm.name for arm in ARMS}
        assert block["plain, interrupted"].points == block["faber, interrupted"].points != ()
        assert block["plain"].points == block["faber"].points == ()
    assert [run.key for run in planned(seeds=4)] == [run.key for run in planned(seeds=4)]
    drawn = [block["plain, interrupted"].points for block in found.values()]
    assert len(set(drawn)) > 12
    assert {point.kind for points in drawn for point in points} == set(schedule.KINDS)


def test_a_start_is_counted_where_a_client_is_started() -> None:
    """A killed client and a new session each mean another start; a compaction does not."""
    points = tuple(schedule.Point(kind, 3) for kind in ("kill", "compact", "new_session"))
    assert Planned(LOADED[0], 1, ARMS[2], points).starts == 3


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "ledger-export" else pytest.mark.full) for name in tasks.names()]
)
def test_a_verifier_holds_of_the_solution_and_not_of_the_start(name: str, tmp_path: Path) -> None:
    """The start tree is not solved, its solution is in every finding, and there is one about what the person said."""
    task = tasks.load(name)
    shutil.copytree(task.directory / "start", tmp_path / "tree")
    assert not all(each.holds for each in tasks.verify(task, tmp_path / "tree"))
    shutil.copytree(task.directory / "solution", tmp_path / "tree", dirs_exist_ok=True)
    found = tasks.verify(task, tmp_path / "tree")
    assert [each for each in found if not each.holds] == []
    assert {"result", "answer"} <= {each.about for each in found} <= set(tasks.ABOUT)


# What a wrong memory of the person's words comes to: the finding that must fail, alone.
WRONG = [
    ("config-layers", "settings.py", 'not key.startswith("secret.") and ', "", "secrets are not read from it"),
    ("config-layers", "settings.py", '"__"', '"_"', "names of variables"),
    ("exit-codes", "jobs.py", "return 75", "return 74", "exit status"),
    ("exit-codes", "jobs.py", 'with open(path + ".new", "w")', 'with open(path, "w")', "no writing in place"),
    ("ledger-export", "ledger.py", "{account}; {", "{account};{", "separator"),
    ("ledger-export", "ledger.py", "abs(cents) // 100", "int(float(abs(cents)) // 100)", "no float or decimal"),
    ("migrate-once", "data/journal.txt", "members", "members\nmigrated 3 members", "the migration ran once"),
    ("migrate-once", "report.py", " <- ", " -> ", "a line begins with the new number"),
    ("names-index", "names.py", "casefold()", "lower()", "no lower upper or locale"),
    ("names-index", "names.py", "dict.fromkeys(names)", "list(names)", "same key in order and once"),
    ("rate-limit", "limits.py", "float(calls), clock()", "0.0, clock()", "begins full"),
    ("rate-limit", "limits.py", "math.ceil(", "math.floor(", "rounded up"),
]


@pytest.mark.parametrize(
    ("name", "file", "right", "wrong", "finding"),
    [pytest.param(*each, marks=() if index == 4 else pytest.mark.full) for index, each in enumerate(WRONG)],
)
def test_what_the_person_said_shows_in_the_tree(
    name: str, file: str, right: str, wrong: str, finding: str, tmp_path: Path
) -> None:
    """A solution in which one thing is not as the person said is not solved, and the verifier says what it is."""
    task = tasks.load(name)
    for part in ("start", "solution"):
        shutil.copytree(task.directory / part, tmp_path / "tree", dirs_exist_ok=True)
    path = tmp_path / "tree" / file
    assert right in path.read_text()
    path.write_text(path.read_text().replace(right, wrong))
    assert finding in [each.name for each in tasks.verify(task, tmp_path / "tree") if not each.holds]


def test_a_tree_that_does_not_end_is_not_solved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A verifier that does not end in time has found that nothing works."""
    monkeypatch.setattr(tasks, "SECONDS", 0.2)
    (tmp_path / "ledger.py").write_text("while True:\n    pass\n")
    assert [each.holds for each in tasks.verify(tasks.load("ledger-export"), tmp_path)] == [False]


class Done:
    """Stands where a client is driven: it notes the runs, and each comes to what it is told."""

    def __init__(self, **came: Any) -> None:
        self.came: Mapping[str, Any] = {**CAME, **came}
        self.runs: list[str] = []

    def __call__(self, run: Planned, setup: Setup, directory: Path) -> dict[str, Any]:
        self.runs.append(run.key)
        return dict(self.came)


def test_a_trial_continues_where_it_was(tmp_path: Path) -> None:
    """Finished runs are not done again; the same command does the others in the same order."""
    runs, first, second = planned(names=1), Done(), Done()
    assert trial.trial(runs[:2], SETUP, Results(tmp_path / "r", {"model": "m"}), 99, first, tmp_path) == 0
    assert trial.trial(runs, SETUP, Results(tmp_path / "r", {"model": "m"}), 99, second, tmp_path) == 0
    assert first.runs + second.runs == [run.key for run in runs]


def test_another_trial_is_not_continued(tmp_path: Path) -> None:
    """A file whose first line says otherwise is refused with what differs, and stays as it is."""
    Results(tmp_path / "r", {"model": "m", "protocol": "1"})
    before = (tmp_path / "r").read_bytes()
    with pytest.raises(OtherTrial, match=r"protocol was '1' and is '2'"):
        Results(tmp_path / "r", {"model": "m", "protocol": "2"})
    assert (tmp_path / "r").read_bytes() == before


def test_a_trial_that_was_killed_continues(tmp_path: Path) -> None:
    """After SIGKILL in the second run, with half a line written, the second run is done again; what the killed one may
    have cost counts."""
    code = f"""
import json, os, signal, sys
sys.path[:0] = {[str(Path(trial.__file__).parent), str(Path(trial.__file__).parents[1] / "scripts")]!r}
import trial
from pathlib import Path
from trials import schedule, tasks
from trials.results import Results
from trials.session import Setup
runs = list(schedule.runs([tasks.load({LOADED[0].name!r})], 1, 2))
results = Results(Path({str(tmp_path / "r")!r}), {{}})
def do(run, setup, directory):
    if run == runs[1]:
        with results.path.open("ab") as file:
            file.write(b'{{"kind": "fini')
        os.kill(os.getpid(), signal.SIGKILL)
    return json.loads({json.dumps(CAME)!r})
trial.trial(runs, Setup("c", "u", "m", "k"), results, 99, do, Path())
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == -9
    runs, done = planned(names=1), Done()
    results = Results(tmp_path / "r", {})
    assert results.charged_usd == 0.25 + runs[1].starts
    assert trial.trial(runs, SETUP, results, 99, done, tmp_path) == 0
    assert done.runs == [run.key for run in runs[1:]]
    assert charged(read(tmp_path / "r")) == 4 * 0.25 + runs[1].starts


def test_the_cap_stops_before_a_run_that_could_exceed_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No run begins that could cost more than is left, reckoned by its starts and by what was not priced."""
    runs = [run for run in planned(seeds=3, names=1) if not run.points]
    done = Done(charged_usd=1.0, cost_usd=0.25)
    results = Results(tmp_path / "r", {})
    assert trial.trial(runs, SETUP, results, 3.5, done, tmp_path) == trial.STOPPED
    assert (len(done.runs), results.charged_usd) == (3, 3.0)
    assert "could cost $1.00, and $0.5000 of $3.50 is left" in capsys.readouterr().err
    assert trial.trial(runs, SETUP, results, 4.0, done, tmp_path) == trial.STOPPED
    assert len(done.runs) == 4


def test_a_void_run_is_repeated_and_never_counted(tmp_path: Path) -> None:
    """What the endpoint refused is repeated when the trial is continued, three attempts in all, and is in no figure."""
    runs, done = planned(names=1)[:1], Done(void="API Error: 401")
    for _ in range(5):
        assert trial.trial(runs, SETUP, Results(tmp_path / "r", {}), 99, done, tmp_path) == trial.VOID
    assert len(done.runs) == 3
    found = figures.figures(read(tmp_path / "r"))
    assert (found["runs"], found["void"]) == (0, 3)


def test_an_endpoint_that_is_down_ends_the_trial_for_now(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After three void runs in a row no other is tried: it would use up one of its three attempts."""
    runs, done = planned(seeds=2), Done(void="API Error: 401")
    assert trial.trial(runs, SETUP, Results(tmp_path / "r", {}), 99, done, tmp_path) == trial.VOID
    assert done.runs == [run.key for run in runs[:3]]
    assert capsys.readouterr().err.splitlines()[-1].startswith("stopped: 3 runs in a row were void")


def line(task: str, seed: int, arm: str, solved: bool, **more: Any) -> dict[str, Any]:
    """A line of a finished run."""
    about = {"kind": "finished", "run": f"{task}/{seed}/{arm}", "task": task, "seed": seed, "arm": arm}
    findings = [{"name": "x", "about": "answer", "holds": solved}]
    return {**CAME, **about, "solved": solved, "findings": findings, "protocol": header.protocol(), **more}


def lines() -> list[dict[str, Any]]:
    """Ten blocks in which interruptions take six of plain's runs and one of faber's."""
    about = {"model": "m", "client": "2.1.330", "faber": "1", "seeds": 20, "tasks": {"names": ["t"]}}
    found: list[dict[str, Any]] = [{"kind": "trial", "protocol": header.protocol(), **about}]
    for seed in range(1, 11):
        plain, faber = seed > 6, seed != 6
        found += [line("t", seed, "plain", True), line("t", seed, "faber", True)]
        found.append(line("t", seed, "plain, interrupted", plain, work_calls=9))
        found.append(line("t", seed, "faber, interrupted", faber, work_calls=7, unpriced_turns=seed % 2))
    return found


def test_the_figures_are_those_of_the_lines() -> None:
    """Shares, pairs in both directions, the loss and the measures are what a person counts by hand."""
    found = figures.figures(lines())
    assert [found["arms"][arm.name]["solved"] for arm in ARMS] == [10, 10, 4, 9]
    primary = found["compared"][0]
    assert (primary["pairs"], primary["only_first"], primary["only_second"]) == (10, 5, 0)
    assert primary["difference"].estimate == 0.5
    assert primary["p"] == 2 / 2**5
    assert (found["loss"]["estimate"], found["measures"]["work_calls"]["estimate"]) == (0.5, -2)
    assert found["measures"]["work_calls"]["high"] == -2
    assert found["measures"]["cost_usd"]["low"] is None  # five of the ten have a turn without a price
    assert found["arms"]["plain, interrupted"]["held"]["answer"] == [4, 10]


def test_a_void_run_counts_for_its_arm() -> None:
    """The report says in which arm runs were void: one that loses its bad runs looks better than it is."""
    found = figures.figures([*lines(), line("t", 11, "faber, interrupted", False, void="the client ended by itself")])
    assert [found["arms"][arm.name]["void"] for arm in ARMS] == [0, 0, 0, 1]
    assert "faber, interrupted       9 of 10" in figures.text(found)
    assert max(map(len, figures.text(found).splitlines())) <= 80
    assert "1 void" in figures.text(found).split("faber, interrupted ")[1].split("solved in one arm only")[0]


def test_a_half_block_is_in_no_pair() -> None:
    """A run whose counterpart of the same task and seed is missing counts in its arm and in no comparison, and the
    report names it; a void counterpart is missing, and one of another seed is none."""
    halves = [line("t", 11, "faber, interrupted", True), line("t", 12, "plain, interrupted", True)]
    found = figures.figures([*lines(), *halves, line("t", 12, "faber, interrupted", True, void="401")])
    assert found["arms"]["faber, interrupted"]["runs"] == 11
    assert [each["pairs"] for each in found["compared"]] == [10, 10, 10, 10]
    assert found["compared"][0]["unpaired"] == ["t/11/faber, interrupted", "t/12/plain, interrupted"]
    assert "and in no pair there: 2 runs\n  t/11/faber, interrupted\n  t/12/plain, interrupted\n" in figures.text(found)
    assert "no pair there" not in figures.text(figures.figures(lines()))


def test_what_is_not_the_results_of_one_trial_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No report pairs the runs of two trials in one file, and a file of something else is named in one line."""
    whole = "".join(json.dumps(each) + "\n" for each in lines())
    for wrong in (whole + whole, "\n".join(whole.split("\n")[1:]), "no json\n", "[]\n", ""):
        (tmp_path / "r").write_text(wrong)
        assert trial.main(["report", "--results", str(tmp_path / "r")]) == 1
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_two_processes_do_not_do_the_same_trial(tmp_path: Path) -> None:
    """While one process adds to the results, another is refused: it would do, and pay for, the same runs."""
    with alone(tmp_path / "r"), pytest.raises(OtherTrial, match="another process is at work"), alone(tmp_path / "r"):
        pass
    with alone(tmp_path / "r"):
        Results(tmp_path / "r", {})


def test_the_report_says_that_the_protocol_was_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A report of runs under another protocol than the present one begins with that; one of the same does not."""
    for changed in (False, True):
        written = [{**each, "protocol": "0" * 64} if changed and each.get("seed") == 1 else each for each in lines()]
        (tmp_path / "r").write_text("".join(json.dumps(each) + "\n" for each in written))
        assert trial.main(["report", "--results", str(tmp_path / "r")]) == 0
        said = capsys.readouterr().out
        assert said.startswith("THE PROTOCOL WAS CHANGED") == changed
        assert max(map(len, said.splitlines())) <= 100
        assert "10 of 20" in said  # pairs that are there and pairs that were planned
        assert trial.main(["report", "--results", str(tmp_path / "r"), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["protocol_changed"] is changed


def test_the_digest_knows_each_file_of_a_task(tmp_path: Path) -> None:
    """Changing any file of a task, its verifier and its solution among them, changes what the results name it by."""
    place = tmp_path / "a" / "b"
    shutil.copytree(tasks.PLACE / "rate-limit", place / "rate-limit")
    task = tasks.load("rate-limit", place)
    seen = {tasks.digest([task])}
    for path in sorted(path for path in task.directory.rglob("*") if path.is_file()):
        path.write_bytes(path.read_bytes() + b"\n")
        seen.add(tasks.digest([task]))
    assert len(seen) == 1 + sum(path.is_file() for path in task.directory.rglob("*"))


def test_no_key_no_client_no_password(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key, without a client and with a password in the URL nothing begins, and one line says why."""
    words = ["run", "--results", "r", "--model", "m", "--cap-usd", "1", "--key-from", "TRIAL_KEY"]
    monkeypatch.delenv("TRIAL_KEY", raising=False)
    assert trial.main([*words, "--base-url", "http://h"]) == 1
    monkeypatch.setenv("TRIAL_KEY", "k")
    assert trial.main([*words, "--base-url", "http://h", "--client", "no-such-client"]) == 1
    monkeypatch.setattr(trial, "_version", lambda client: "2.1.330")
    assert trial.main([*words, "--base-url", "http://a:b@h", "--client", sys.executable]) == 1
    assert [each.partition(" ")[0] for each in capsys.readouterr().err.splitlines()] == ["trial.py:"] * 3
    assert not os.path.exists("r")


def result(cost: float, **more: Any) -> dict[str, Any]:
    """A result event."""
    return {"type": "result", "subtype": "success", "is_error": False, "total_cost_usd": cost, **more}


@pytest.mark.parametrize(("version", "spent"), [("2.1.330", 0.5), ("2.1.197", 0.8)])
def test_a_session_is_not_paid_twice(version: str, spent: float) -> None:
    """A resumed client that prints the total of its session adds what is new; an older one prints the turn's own."""
    tally = Tally(1.0)
    before = None
    for total in (0.3, 0.5):
        tally.begin_process(before)
        tally.begin_turn()
        tally.take({"type": "system", "subtype": "init", "claude_code_version": version})
        tally.take(result(total))
        before = tally.end_process()
    assert (round(tally.cost_usd, 6), round(tally.charged_usd, 6), tally.unpriced_turns) == (spent, spent, 0)


def test_what_the_endpoint_refuses_is_known_while_the_client_tries_again() -> None:
    """A refusal that the client tries again is kept until a response comes: a run whose time is up by then is void."""
    tally = Tally(1.0)
    tally.take({"type": "system", "subtype": "api_retry", "error_status": 529, "error": "overloaded"})
    run = Run(planned()[0], SETUP, Path())
    run.tally, run.ended = tally, "late"
    assert run._silent() == "the endpoint refused until the time was up: 529 overloaded"
    tally.take({"type": "assistant", "message": {"id": "m", "content": []}})
    assert run._silent() == ""


def test_what_has_no_price_counts_as_the_most_it_could_be() -> None:
    """A killed turn, and one of a model that the client does not know, are counted as unpriced and charged as a whole
    start; after a kill the resumed client begins at nothing."""
    tally = Tally(1.0)
    tally.begin_process(None)
    tally.begin_turn()
    tally.take({"type": "system", "subtype": "init", "claude_code_version": "2.1.330"})
    tally.take(result(0.3))
    tally.begin_turn()
    assert tally.end_process() is None
    assert (tally.cost_usd, tally.charged_usd, tally.unpriced_turns) == (0.3, 1.0, 1)
    tally.begin_process(None)
    tally.begin_turn()
    tally.take(result(0.2, modelUsage={"mine": {"costBasis": "unknown"}}))
    tally.end_process()
    assert (tally.cost_usd, tally.charged_usd, tally.unpriced_turns) == (0.3, 2.0, 2)


def test_an_agent_that_looks_at_the_verifier_has_not_solved_it() -> None:
    """A call that names what is hidden is noted, whatever it came to."""
    tally = Tally(1.0)
    call = {"type": "tool_use", "id": "1", "name": "Read", "input": {"file_path": "/x/benchmarks/tasks/a/verify.py"}}
    tally.take({"type": "assistant", "message": {"id": "m", "content": [call]}})
    assert tally.peeked


def test_a_client_gets_its_key_and_nothing_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The setup does not show the key; the client gets it by the variable that was chosen, and no other credential."""
    for name in ("ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "GITHUB_TOKEN"):
        monkeypatch.setenv(name, "of the machine")
    setup = replace(SETUP, key="very-secret", key_variable="ANTHROPIC_AUTH_TOKEN")
    assert "very-secret" not in repr(setup)
    environment = setup.environment(tmp_path, "m")
    assert environment["ANTHROPIC_AUTH_TOKEN"] == "very-secret"
    assert "of the machine" not in environment.values()
    assert environment["HOME"] == str(tmp_path)
