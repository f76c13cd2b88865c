"""What makes a trial this one, what it refuses to begin with, and what it says before."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest
import trial
from trials import header, schedule, tasks
from trials.results import OtherTrial, Results


def test_variables_are_part_of_what_a_trial_is(tmp_path: Path) -> None:
    """A trial with another variable of the client, or none, is another; a value that looks like a credential is not in
    the results, but a different one is still noticed."""
    words = [
        "--variable", "A=1", "--variable", "MY_TOKEN=very secret", "--variable", "HTTPS_PROXY=http://u:secret@h:1",
        "--variable", "X_HEADERS=a: secret", "--variable", "B=of the-key", "--variable", "MAX_OUTPUT_TOKENS=64000000",
    ]  # fmt: skip
    given = header.variables(words[1::2])
    told = header.told(given, "the-key")
    assert [name for name, value in told.items() if value == given[name]] == ["A", "MAX_OUTPUT_TOKENS"]
    assert told["MY_TOKEN"] != header.told({"MY_TOKEN": "another secret"}, "the-key")["MY_TOKEN"]
    Results(tmp_path / "r", {"variables": told})
    assert not any(word in (tmp_path / "r").read_text() for word in ("secret", "the-key"))
    for other in ({"variables": {**told, "A": "2"}}, {"variables": {}}, {}):
        with pytest.raises(OtherTrial, match="variables was"):
            Results(tmp_path / "r", other)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--variable A", "--variable takes NAME=VALUE"), ("--variable HOME=/x", "--variable cannot set HOME"),
        ("--cap-usd nan", "--cap-usd cannot be nan"), ("--start-usd 0", "--start-usd cannot be 0"),
        ("--seeds 0", "--seeds cannot be 0"), ("--interruptions -1", "--interruptions cannot be -1"),
        ("--tasks rate-limit rate-limit", "--tasks names a task twice"),
    ],
)  # fmt: skip
def test_what_makes_no_trial_is_refused(
    words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cap that is not a number, no seeds, and a variable that the trial sets itself are refused with one line."""
    monkeypatch.setenv("TRIAL_KEY", "k")
    monkeypatch.setattr(trial, "_version", lambda client: "2.1.330")
    command = ["run", "--results", str(tmp_path / "r"), "--model", "m", "--cap-usd", "1", "--key-from", "TRIAL_KEY"]
    command += ["--client", sys.executable, "--base-url", "http://h", *words.split()]
    assert trial.main(command) == 1
    assert capsys.readouterr().err.startswith(f"trial.py: {said}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1:{port}", "nothing answers at 127.0.0.1:"), ("127.0.0.1:{port}", "is no http://"),
        ("http:///v1", "is no http://"), ("http://[::1", "is no http://"),
    ],
)  # fmt: skip
def test_an_endpoint_that_is_not_there_is_refused(
    url: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where nothing listens no run begins, nothing is written, and one line says so."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    monkeypatch.setenv("TRIAL_KEY", "k")
    monkeypatch.setattr(trial, "_version", lambda client: "2.1.330")
    command = ["run", "--results", str(tmp_path / "r"), "--model", "m", "--cap-usd", "1", "--key-from", "TRIAL_KEY"]
    assert trial.main([*command, "--client", sys.executable, "--base-url", url.format(port=port)]) == 1
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_agents_get_the_plugin_and_nothing_that_lies_beside_it(tmp_path: Path) -> None:
    """The copy of the plugin has no verifier and nothing that git does not keep; its digest changes with its files, so
    that another faber of the same version is another trial."""
    copy = trial._plugin(tmp_path / "plugin")
    kept = subprocess.run(["git", "ls-files"], cwd=trial.ROOT, capture_output=True, text=True, check=True).stdout
    assert {path.name for path in copy.iterdir()} == set(trial.PLUGIN) <= {each.split("/")[0] for each in kept.split()}
    before = header._digest(copy)
    (copy / "skills" / "next" / "SKILL.md").write_text("other words")
    assert header._digest(copy) != before


def test_the_plan_says_what_it_may_cost_and_why_it_may_be_more(capsys: pytest.CaptureFixture[str]) -> None:
    """The plan names the starts of the client with and without interruptions, what they spend, and what is not in it,
    on eighty columns."""
    assert trial.main(["plan", "--seeds", "1", "--tasks", "ledger-export", "--start-usd", "0.5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    said = " ".join(lines)
    starts = sum(run.starts for run in schedule.runs([tasks.load("ledger-export")], 1, 2))
    assert f"4 runs: {starts} starts of the client if every interruption is reached, 4 if none is" in said
    assert f"${starts * 0.5:.2f} if each of the {starts} spends its $0.50" in said
    assert "can exceed this by its last one" in said
    assert max(map(len, lines)) <= 80
