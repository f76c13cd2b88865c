"""The plugin in the real Codex."""

import json
import re
from collections.abc import Iterator
from functools import reduce
from operator import add
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, cast

import pytest

from e2e.bench import GATED, Bench, Setting
from e2e.client import Client
from e2e.codex import Codex
from e2e.literal import LiteralAgent
from e2e.messages_api import MessagesApi
from e2e.replies import text, tool
from e2e.repositories import git, make_project
from faber.agents.installing import SENTENCE
from faber.feedback.answer_codes import read_codes
from faber.store.layout import Layout

ONE_STEP = """
phases:
  - id: build
    steps:
      - {id: write, instruction: Write the export., evidence: [{file: export.txt}]}
"""
BYPASS = ("--dangerously-bypass-hook-trust",)


def roots(*paths: Path) -> list[str]:
    """The setting of Codex that lets its sandbox write there, too."""
    return [f"sandbox_workspace_write.writable_roots={json.dumps([str(path) for path in paths])}"]


def told(printed: str) -> Any:
    """The JSON object among the lines that a command printed."""
    return json.loads(next(line for line in printed.splitlines() if line.startswith("{")))


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


@pytest.fixture
def tmp_path(on_disk: Path) -> Path:
    """A directory that Codex's sandbox sees."""
    return Path(mkdtemp(dir=on_disk))


@pytest.fixture(scope="module")
def prepared(codex_binary: str, on_disk: Path) -> Iterator[Codex]:
    """A Codex with the plugin installed, for tests to `share`."""
    directory = Path(mkdtemp(dir=on_disk))
    with MessagesApi() as api:
        made = Codex(codex_binary, directory / "home", make_project(directory / "project"), api)
        made.install(Path(__file__).parents[2])
        yield made
        made.close()


def bench_of(codex: Codex, root: Path) -> Bench:
    """A bench whose agent works in Codex."""
    return Bench(cast(Client, codex), codex.api, codex.project, root, Setting())


def test_trusted_hooks_tell_a_session_of_its_run(codex: Codex, prepared: Codex) -> None:
    """Once a person has trusted them, the hooks load as the bundle has them and brief a session that nothing else told
    of its run, at its start and after a compaction; the run has the session and the client in its events."""
    root = codex.share(prepared)
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
    assert {each["trustStatus"] for each in codex.hooks()} == {"trusted"}  # whatever faber has compiled meanwhile


def test_hooks_that_nobody_trusts_are_replaced_by_a_sentence(codex: Codex, prepared: Codex) -> None:
    """An agent whose client skips the hooks, and that knows only its prompt and the sentence in AGENTS.md, does the
    run's next steps."""
    root = codex.share(prepared)
    bench = bench_of(codex, root)
    bench.workflow(ONE_STEP)
    bench.person("run", "init", "--run-id", "csv")
    (codex.project / "AGENTS.md").write_text(f"# Our project\n\n{SENTENCE}\n")
    (codex.home / ".bash_profile").write_text(f'PATH="{root}/bin:$PATH"\n')
    codex.api.script.always(LiteralAgent(bench.hands))
    codex.run("continue")
    assert not codex.api.turns[0].has("an unfinished run belongs")
    assert bench.state["status"] == "completed", codex.api.shown()


READS = ("status", "next csv", "context csv")
WRITES = ("event emit csv --type checkpoint", "context csv --record")
MORE = ("doctor csv", "run list", "event list csv", "protocol step-loop", "watch csv | head -1")
MORE_WRITES = ("run init --run-id other", "step start csv frame:classify")


@pytest.mark.parametrize(
    ("reads", "writes"), [(READS, WRITES), pytest.param(MORE, MORE_WRITES, marks=pytest.mark.full)], ids=["few", "more"]
)
def test_a_read_only_sandbox(codex: Codex, plugin_root: Path, reads: tuple[str, ...], writes: tuple[str, ...]) -> None:
    """In Codex's default sandbox what only reads works; what writes says that the sandbox is read-only, and which
    options open it. A literal agent reads that and stops."""
    bench = bench_of(codex, plugin_root)
    bench.person("run", "init", "--run-id", "csv")
    faber = f"{plugin_root}/bin/faber"
    called = [tool("Bash", command=f"{faber} {each} | head -c 20000") for each in reads]
    called += [tool("Bash", command=f"{faber} {each}") for each in writes]
    codex.api.script.reply(reduce(add, called), text("done"))
    codex.api.script.always(LiteralAgent())
    result = codex.run("look", sandbox="read-only")
    results = codex.api.turns[-1].results
    assert [each.is_error for each in results] == [False] * len(reads) + [True] * len(writes)
    assert not any("sandbox_read_only" in each.text for each in results[: len(reads)])
    wanted = roots(codex.project / ".git")[0]
    for each in results[len(reads) :]:
        error = told(each.text)["error"]
        assert error["code"] == "sandbox_read_only"
        assert f"-s workspace-write -c '{wanted}'" in error["recovery"]
        assert result.session_id in error["recovery"]
    codex.run(f"1. Run `{faber} protocol step-loop`.\n2. Run `{faber} next csv`.", sandbox="read-only")
    # The last one wants to record. What the model was told counts: Codex's stream sometimes lacks the last command.
    assert ["sandbox_read_only" in each.text for each in codex.api.turns[-1].results] == [False, False, True]


def test_a_sandbox_that_may_write_in_the_workspace(codex: Codex, plugin_root: Path) -> None:
    """There a run continues, but git cannot commit: loading the context says so, with the option that lets it. Nothing
    reaches a network, and a missing environment cannot be built: both are told in one line."""
    git(codex.project, "remote", "add", "origin", "https://127.0.0.1:9/none.git")
    bench = bench_of(codex, plugin_root)
    bench.person("run", "init", "--run-id", "csv")
    faber, commit = f"{plugin_root}/bin/faber", "git commit -q --allow-empty -m x; echo $?"
    called = [f"{faber} context csv --record", commit, f"unset FABER_VENV; {faber} status", f"{faber} sync status"]
    codex.api.script.reply(reduce(add, [tool("Bash", command=each) for each in called]), text("done"))
    codex.run("continue", sandbox="workspace-write")
    context, committed, started, synced = codex.api.turns[-1].results
    [warning] = [each for each in json.loads(context.text)["warnings"] if each["code"] == "git_read_only"]
    assert (committed.text.splitlines()[-1], started.is_error) == ("128", True)
    assert started.text.splitlines() == [
        f"faber: Codex's sandbox cannot build its Python environment: a person runs `{faber} setup` in a terminal once."
    ]
    offline = told(synced.text)["error"]
    assert (offline["code"], "network_access=true" in offline["recovery"]) == ("sandbox_offline", True)
    option = re.findall(r"-c '(.*)'`", warning["recovery"])
    codex.api.script.reply(tool("Bash", command=commit), tool("Bash", command=called[0]), text("done"))
    codex.run("continue", sandbox="workspace-write", settings=option)
    committed, context = codex.api.turns[-1].results
    assert committed.text == "0\n"
    assert "git_read_only" not in context.text


@pytest.mark.full  # tests/e2e/test_three_clients.py goes through both clients
@pytest.mark.parametrize("gates", [1, 2], ids=["short", "default"])
def test_the_workflow_to_its_end(codex: Codex, prepared: Codex, gates: int) -> None:
    """A literal agent works from a skill, over each gate that a person approves, to the end of a workflow, also of the
    default one, in a sandbox that may write in the workspace and in the repository. No code is made with which a
    prompt could answer, even if the client was started where a person works with another one."""
    root = codex.share(prepared)
    bench = bench_of(codex, root)
    if gates == 1:
        bench.workflow(GATED)
    codex.api.script.always(LiteralAgent(bench.hands))
    how: dict[str, Any] = {"sandbox": "workspace-write", "extra": BYPASS, "settings": roots(codex.project / ".git")}
    nested = {"CLAUDE_CODE_ENTRYPOINT": "cli", "CLAUDE_CODE_SESSION_ATTENDED": "1"}
    first = codex.run("$faber:run Add a CSV export", environment=nested, **how)
    assert read_codes(Layout(str(codex.project)), first.session_id) is None
    for _ in range(gates):
        assert bench.state["status"] == "awaiting_feedback", codex.api.shown()
        bench.person("feedback", "respond", bench.state["run_id"], "approve")
        codex.run("continue", resume=first.session_id, **how)
    assert bench.state["status"] == "completed"
    own = [each for each in events(bench.run.directory) if each["actor"] == "agent" and each.get("session_id")]
    other = [each for each in own if (each.get("client"), each["session_id"]) != ("codex", first.session_id)]
    assert (len(own) > 5 * gates, other) == (True, [])
