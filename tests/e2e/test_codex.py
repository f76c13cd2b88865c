"""The plugin in the real Codex."""

import json
import re
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, cast

from e2e.bench import SHORT, Bench, Setting
from e2e.client import Client
from e2e.codex import Codex
from e2e.literal import LiteralAgent
from e2e.messages_api import MessagesApi
from e2e.replies import text, tool
from faber.agents.installing import SENTENCE
from faber.feedback.answer_codes import read_codes
from faber.store.layout import Layout

BYPASS = ("--dangerously-bypass-hook-trust",)


def roots(*paths: Path) -> list[str]:
    """The setting of Codex that lets its sandbox write there, too."""
    return [f"sandbox_workspace_write.writable_roots={json.dumps([str(path) for path in paths])}"]


def events(directory: str) -> list[dict[str, Any]]:
    """The events of a run, in order."""
    return [json.loads(path.read_text()) for path in sorted(Path(directory, "events").glob("*.json"))]


def test_codex_is_scripted_as_claude_code_is(codex: Codex, api: MessagesApi, project: Path) -> None:
    """A script's tool calls are made in Codex and come back, with their results, as the script spelled them."""
    wrote = tool("Write", file_path=str(project / "a b" / "note.txt"), content="it's\nhere")
    read = tool("Read", file_path=str(project / "README.md"))
    api.script.reply(text("First.") + tool("Bash", command="echo out; exit 3"), wrote, read, text("done"))
    result = codex.run("do it")
    assert (result.status, result.text, len(result.tool_uses)) == (0, "done", 3)
    last = api.turns[-1]
    assert [(each.name, each.text, each.is_error) for each in last.results] == [
        ("Bash", "out\n", True),
        ("Write", "", False),
        ("Read", "# sample\n", False),
    ]
    assert (api.turns[0].prompt, last.session) == ("do it", result.session_id)
    assert (project / "a b" / "note.txt").read_text() == "it's\nhere"


def bench_of(codex: Codex, root: Path) -> Bench:
    """A bench whose agent works in Codex."""
    return Bench(cast(Client, codex), codex.api, codex.project, root, Setting())


def test_trusted_hooks_tell_a_session_of_its_run(codex: Codex, plugin_root: Path) -> None:
    """Once a person has trusted them, the hooks load as the bundle has them and brief a session that nothing else told
    of its run, at its start and after a compaction; the run has the session and the client in its events."""
    root = codex.install(plugin_root)
    codex.trust_hooks()
    bench = bench_of(codex, root)
    bench.person("run", "init", "--run-id", "csv")
    record = f"{root}/bin/faber event emit csv --type checkpoint --message done"
    api = codex.api
    api.script.reply(tool("Bash", command=record).using(input_tokens=60_000), text("done"))
    result = codex.run("continue", settings=["model_auto_compact_token_limit=50000"])
    before, after = api.turns
    assert (len(api.compactions), result.status) == (1, 0)
    for request in (before, after):
        [brief] = [
            each for each in request.texts if each.startswith("faber: an unfinished run belongs to this session")
        ]
        assert f"Next command: {root}/bin/faber next csv" in brief
    assert not after.has(record)  # nothing else is left of it
    assert "faber:resume" in before.system + str(before.messages)
    recorded = events(bench.run.directory)
    assert [(each["type"], each["actor"]) for each in recorded] == [
        ("checkpoint", "agent"),
        ("checkpoint", "hook"),
        ("session_end", "hook"),
    ]
    assert {each["session_id"] for each in recorded} == {result.session_id}
    assert recorded[0]["client"] == "codex"


def test_hooks_that_nobody_trusts_are_replaced_by_a_sentence(codex: Codex, plugin_root: Path) -> None:
    """An agent whose client skips the hooks, and that knows only its prompt and the sentence in AGENTS.md, does the
    run's next steps."""
    root = codex.install(plugin_root)
    bench = bench_of(codex, root)
    bench.workflow(SHORT)
    bench.person("run", "init", "--run-id", "csv")
    (codex.project / "AGENTS.md").write_text(f"# Our project\n\n{SENTENCE}\n")
    (codex.home / ".bash_profile").write_text(f'PATH="{root}/bin:$PATH"\n')
    codex.api.script.always(LiteralAgent(bench.hands))
    codex.run("continue")
    assert not codex.api.turns[0].has("an unfinished run belongs")
    assert bench.state["status"] == "completed", codex.api.shown()


READS = ("status", "next csv", "context csv", "doctor csv", "run list", "event list csv", "protocol step-loop")
WRITES = ("run init --run-id other", "event emit csv --type checkpoint", "step start csv frame:classify")


def test_a_read_only_sandbox(codex: Codex, plugin_root: Path) -> None:
    """In Codex's default sandbox what only reads works; what writes says that the sandbox is read-only, and which
    options open it."""
    bench = bench_of(codex, plugin_root)
    bench.person("run", "init", "--run-id", "csv")
    faber = f"{plugin_root}/bin/faber"
    called = [tool("Bash", command=f"{faber} {each} | head -c 20000") for each in READS]
    called += [tool("Bash", command=f"{faber} {each}") for each in (*WRITES, "context csv --record")]
    codex.api.script.reply(reduce(add, called), text("done"))
    result = codex.run("look", sandbox="read-only")
    *results, context = codex.api.turns[-1].results
    assert [each.is_error for each in results] == [False] * len(READS) + [True] * len(WRITES)
    assert not any("sandbox_read_only" in each.text for each in results[: len(READS)])
    wanted = roots(codex.project / ".git")[0]
    for each in results[len(READS) :]:
        error = json.loads(each.text.splitlines()[0])["error"]
        assert error["code"] == "sandbox_read_only"
        assert f"-s workspace-write -c '{wanted}'" in error["recovery"]
        assert f"resume {result.session_id}" in error["recovery"]
    [warning] = [each for each in json.loads(context.text)["warnings"] if each["code"] == "not_recorded"]
    assert wanted in warning["recovery"]


def test_a_sandbox_that_may_write_in_the_workspace(codex: Codex, plugin_root: Path) -> None:
    """There a run goes on, but git cannot commit: loading the context says so, with the option that lets it; and an
    environment that is missing cannot be built, which is told at once."""
    bench = bench_of(codex, plugin_root)
    bench.person("run", "init", "--run-id", "csv")
    faber, commit = f"{plugin_root}/bin/faber", "git commit -q --allow-empty -m x; echo $?"
    called = [f"{faber} context csv --record", commit, f"unset FABER_VENV; {faber} status"]
    codex.api.script.reply(reduce(add, [tool("Bash", command=each) for each in called]), text("done"))
    codex.run("go on", sandbox="workspace-write")
    context, committed, started = codex.api.turns[-1].results
    [warning] = [each for each in json.loads(context.text)["warnings"] if each["code"] == "git_read_only"]
    assert (committed.text.splitlines()[-1], started.is_error) == ("128", True)
    assert started.text.splitlines() == [
        f"faber: Codex's sandbox cannot build its Python environment: a person runs `{faber} setup` in a terminal once."
    ]
    option = re.findall(r"-c '(.*)'`", warning["recovery"])
    codex.api.script.reply(tool("Bash", command=commit), tool("Bash", command=called[0]), text("done"))
    codex.run("go on", sandbox="workspace-write", settings=option)
    committed, context = codex.api.turns[-1].results
    assert committed.text == "0\n"
    assert "git_read_only" not in context.text


def test_nobody_answers_by_a_prompt(codex: Codex, plugin_root: Path) -> None:
    """A prompt with the code of an open request is an agent's as well as a person's in Codex: it answers nothing, even
    if the client was started where a person works with another one."""
    root = codex.install(plugin_root)
    bench = bench_of(codex, root)
    bench.person("run", "init", "--run-id", "csv")
    bench.person("feedback", "request", "csv", "--prompt", "May I?")
    codex.api.script.always(text("done"))
    nested = {"CLAUDE_CODE_ENTRYPOINT": "cli", "CLAUDE_CODE_SESSION_ATTENDED": "1"}
    shown = codex.run("continue", extra=BYPASS, environment=nested)
    codes = read_codes(Layout(str(codex.project)), shown.session_id)
    for code in codes.codes if codes else ("K7QXM2",):
        codex.run(f"approve {code}", extra=BYPASS, environment=nested, resume=shown.session_id)
    assert bench.state["status"] == "awaiting_feedback"
    assert "feedback_received" not in bench.types


def test_the_default_workflow_to_its_end(codex: Codex, plugin_root: Path) -> None:
    """A literal agent works from a skill, over two gates that a person approves, to the end of the default workflow,
    in a sandbox that may write in the workspace and in the repository."""
    root = codex.install(plugin_root)
    bench = bench_of(codex, root)
    codex.api.script.always(LiteralAgent(bench.hands))
    how: dict[str, Any] = {"sandbox": "workspace-write", "extra": BYPASS, "settings": roots(codex.project / ".git")}
    first = codex.run("$faber:run Add a CSV export", **how)
    for _ in range(2):
        assert bench.state["status"] == "awaiting_feedback", codex.api.shown()
        bench.person("feedback", "respond", bench.state["run_id"], "approve")
        codex.run("continue", resume=first.session_id, **how)
    assert bench.state["status"] == "completed"
    own = [event for event in events(bench.run.directory) if event["actor"] == "agent"]
    assert {(each.get("client"), each["session_id"]) for each in own if "session_id" in each} == {
        ("codex", first.session_id)
    }
