"""What scenarios rely on: the API and the client as they are driven here, and the client's ways with plugins."""

import json
import os
import re
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from e2e.client import Client, ClientFailed, Result
from e2e.messages_api import MessagesApi, NotAsked, ScriptFailed
from e2e.processes import until
from e2e.replies import Reply, error, hang, overloaded, summary, text, too_long, tool
from e2e.repositories import git, make_project, publish
from e2e.request import Request

Post = Callable[..., Any]


@pytest.fixture
def post() -> Post:
    """`post(api, stream=True, …)`: one request as a client would make it; what was answered."""

    def send(api: MessagesApi, path: str = "/v1/messages?beta=true", **body: Any) -> Any:
        request = urllib.request.Request(
            api.url + path,
            json.dumps({"model": "m", "tools": [{"name": "Bash"}], "messages": [], **body}).encode(),
            {"Content-Type": "application/json", "x-api-key": "sk-secret", "Authorization": "Bearer sk-secret"},
        )
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as answer:
            said = answer.read().decode()
        return said if body.get("stream") else json.loads(said)

    return send


# -- the API by itself ----------------------------------------------------------------------------------------------


def test_a_request_that_does_not_stream_gets_the_whole_message(api: MessagesApi, post: Post) -> None:
    """A request without `stream` is answered with one message that holds every block."""
    api.script.reply(text("Look:") + tool("Bash", command="ls"))
    answer = post(api)
    assert [block["type"] for block in answer["content"]] == ["text", "tool_use"]
    assert answer["content"][1]["input"] == {"command": "ls"}
    assert answer["stop_reason"] == "tool_use"


def test_tokens_are_counted(api: MessagesApi, post: Post) -> None:
    """A request to count tokens gets a number and takes no answer of the script."""
    assert post(api, "/v1/messages/count_tokens?beta=true")["input_tokens"] > 0
    assert api.turns == []


def test_a_request_without_tools_is_aside(api: MessagesApi, post: Post) -> None:
    """A request without tools is answered apart from the script, unless the test takes it for an agent's."""
    assert post(api, tools=[])["content"] == [{"type": "text", "text": "ok"}]
    api.script.is_side = lambda _: False
    api.script.reply(text("from the script"))
    assert post(api, tools=[])["content"][0]["text"] == "from the script"
    assert (len(api.sides), len(api.turns)) == (1, 1)


@pytest.mark.parametrize(("reply", "sent"), [(hang(), b""), (text("half").hang(), b"half")])
def test_a_response_that_hangs(api: MessagesApi, reply: Reply, sent: bytes) -> None:
    """A response that hangs sends what it has, never its end, and stays open."""
    api.script.reply(reply)
    body = b'{"stream": true, "tools": [{}]}'
    head = f"POST /v1/messages HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    received = bytearray()

    def to_its_end() -> None:
        while part := connection.recv(65536):
            received.extend(part)

    with socket.create_connection(("127.0.0.1", int(api.url.rpartition(":")[2])), timeout=0.3) as connection:
        connection.sendall(head + body)
        with pytest.raises(TimeoutError):
            to_its_end()
    assert bool(received) == bool(sent)
    assert sent in received
    assert b"message_stop" not in received


def test_keys_are_not_recorded(api: MessagesApi, post: Post) -> None:
    """Nothing that is recorded of a request holds the client's key."""
    api.script.reply(text("hello"))
    post(api, stream=True)
    [request] = api.requests
    assert "sk-secret" not in f"{request.headers} {request.body}"
    assert request.headers["content-type"] == "application/json"


def test_each_conversation_has_its_own_answers(api: MessagesApi, post: Post) -> None:
    """Requests that match a `when` take its answers in order, then its `always`; the others never do."""
    api.script.when("the reviewer", text("r1"), always=lambda request: text(f"r{request.number}"))
    api.script.reply(text("d1"))
    review = {"system": "You are the reviewer."}
    said = [post(api, **each)["content"][0]["text"] for each in (review, {}, review, review)]
    assert said == ["r1", "d1", "r3", "r4"]


def test_what_only_a_later_message_says_does_not_choose_the_conversation(api: MessagesApi, post: Post) -> None:
    """A caller that has written a subagent's words into a tool call is not taken for the subagent."""
    api.script.when("the reviewer", always=text("reviewer"))
    api.script.reply(text("caller"))
    block = {"type": "tool_use", "id": "1", "name": "Agent", "input": {"prompt": "You are the reviewer."}}
    messages = [{"role": "user", "content": "begin"}, {"role": "assistant", "content": [block]}]
    assert post(api, messages=messages)["content"][0]["text"] == "caller"


def test_every_text_is_found_wherever_it_stands(api: MessagesApi, post: Post) -> None:
    """`has` finds what is in the system prompt, a message of any role, a tool's input and a tool's result."""
    api.script.reply(text("ok"))
    post(
        api,
        system=[{"type": "text", "text": "in-system"}],
        messages=[
            {"role": "user", "content": "in-string"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "1", "name": "Bash", "input": {"a": "in-input"}}],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "in-result"}]},
                    {"type": "text", "text": "in-block"},
                ],
            },
            {"role": "system", "content": "in-last"},
        ],
    )
    [request] = api.turns
    for words in ("in-system", "in-string", "in-input", "in-result", "in-block", "in-last"):
        assert request.has(words), words
    assert not request.has("tool_use")
    assert request.result("1").text == "in-result"
    assert request.prompt == "in-block"


def test_an_answer_that_fails_is_reported(post: Post) -> None:
    """A scripted function that raises fails the test, with what it raised."""
    with MessagesApi() as api:

        def broken(_: object) -> Reply:
            raise ValueError("no such step")

        api.script.reply(broken)
        post(api)
        with pytest.raises(ScriptFailed, match="no such step"):
            api.verify()


def test_an_unknown_path_is_reported(post: Post) -> None:
    """A request to anything but messages is answered 404 and fails the test."""
    with MessagesApi() as api:
        with pytest.raises(urllib.error.HTTPError) as refused:
            post(api, "/v1/models")
        refused.value.close()
        assert refused.value.code == 404
        with pytest.raises(ScriptFailed, match="/v1/models"):
            api.verify()


def test_a_script_not_used_up_is_reported() -> None:
    """Answers that nobody asked for fail the test and are named."""
    with MessagesApi() as api:
        api.script.reply(text("never heard"))
        with pytest.raises(ScriptFailed, match="never heard"):
            api.verify()


def test_waiting_for_a_request_ends() -> None:
    """Waiting for a request that does not come raises when its time is over."""
    with MessagesApi() as api, pytest.raises(NotAsked):
        api.wait_for("anything", timeout=0.05)


# -- one client -----------------------------------------------------------------------------------------------------


def test_one_conversation_shows_the_clients_ways(
    client: Client, api: MessagesApi, plugin: Path, strace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that takes its prompts from stdin answers one after the other, each with its own events, in a bare
    environment and without a word to another machine. Each comment is the claim of the turn below it."""
    monkeypatch.setenv("SECRET_OF_THE_MACHINE", "1")
    monkeypatch.setenv("FABER_VENV", "/the/environment")
    client.plugin_dir = plugin
    client.configure(permissions={"allow": ["Bash(touch granted)"]})
    trace, calls = tmp_path / "trace", "trace=connect,sendto,sendmsg,sendmmsg"
    running = client.start(
        None,
        allowed_tools=["Bash(expr *)", "Bash(env)", "Bash(seq *)"],
        max_turns=4,
        environment={"MORE": "1"},
        under=[strace, "-f", "--seccomp-bpf", "-qq", "-e", calls, "-o", str(trace)],
    )

    def turn(prompt: str, *answers: Reply) -> tuple[Result, list[Request]]:
        """The events of one prompt, and the requests for it."""
        before = len(api.turns)
        api.script.reply(*answers)
        result = running.turn(prompt)
        assert api.script.left() == []
        return result, api.turns[before:]

    # A prompt reaches the model, and its text comes back as the result, with its usage.
    result, [asked] = turn("say hello", text("Good day.").using(input_tokens=12_345, output_tokens=7))
    assert (result.text, result.texts) == ("Good day.", ["Good day."])
    assert asked.prompt.endswith("say hello")
    assert "Bash" in asked.tools
    used = result.result["usage"]
    assert (used["input_tokens"], used["output_tokens"]) == (12_345, 7)

    # A plugin's hook context and its skill's inlined output reach the model, from its directory.
    result, [asked] = turn("/tide:water when it is", text("Noted."))
    assert result.text == "Noted."
    tells_the_tide(asked, plugin)

    # Two tool calls in one answer run in the project, and the model is sent what each came to.
    calling = tool("Bash", command="expr 6 '*' 7; pwd") + tool("Read", file_path=f"{client.project}/README.md")
    result, [_, asked] = turn("look", text("Look.") + calling, text("Done."))
    assert result.texts == ["Look.", "Done."]
    ran, read = sorted((asked.result(each.id) for each in result.tool_uses), key=lambda each: each.id)
    assert ran.text == f"42\n{client.project}"
    assert (read.name, read.is_error) == ("Read", False)
    assert "# sample" in read.text
    assert [each.id for each in result.tool_uses] == [ran.id, read.id]
    assert {each.id: each for each in result.tool_results} == {ran.id: ran, read.id: read}

    # A call that no permission covers fails for the model and is listed as denied; what the settings allow is not.
    calling = tool("Bash", command="touch made") + tool("Bash", command="touch granted")
    result, [_, asked] = turn("make them", calling, text("Sorry."))
    denied, made = (asked.result(each.id) for each in result.tool_uses)
    assert [each["tool_input"] for each in result.denials] == [{"command": "touch made"}]
    assert (denied.is_error, made.is_error) == (True, False)
    assert [(client.project / name).exists() for name in ("made", "granted")] == [False, True]

    # What the client and its tools see of the machine is only what the harness gives them.
    _, [_, asked] = turn("env", tool("Bash", command="env"), text("ok"))
    seen = dict(line.split("=", 1) for line in asked.results[-1].text.splitlines())
    assert "SECRET_OF_THE_MACHINE" not in seen
    assert (seen["HOME"], seen["MORE"]) == (str(client.home), "1")
    assert seen["FABER_VENV"] == "/the/environment"

    # A response that hits the output limit is continued; each piece is told, the result holds only the last.
    result, [_, asked] = turn("tell", text("The first half and more").cut(14), text(" and the second."))
    assert result.texts == ["The first half", " and the second."]
    assert result.text == " and the second."  # of its pieces, the client gives the last one as the result
    assert asked.prompt.startswith("Output token limit hit")
    assert [each for each in result.of("user") if not each.get("isSynthetic")] == []

    # An error 529 is not the end of a turn: the client asks again.
    result, requests = turn("hello", overloaded(), text("ok"))
    assert (result.text, len(requests)) == ("ok", 2)

    # A subagent's requests are told from its caller's, though both are of one session.
    api.script.when("the pearl diver", text("found a pearl"))
    diving = tool(
        "Agent",
        description="dive",
        prompt="Be the pearl diver.",
        subagent_type="general-purpose",
        run_in_background=False,
    )
    result, requests = turn("dive", diving, text("all done"))
    assert result.text == "all done"
    assert (len(requests), len({each.session for each in requests})) == (3, 1)
    assert "found a pearl" in requests[-1].results[-1].text

    # `/compact` asks for a summary, with the words given; the conversation continues from that alone.
    api.script.compact(summary("Only the harbour matters."))
    result, _ = turn("/compact keep the harbour")
    [compaction] = api.compactions
    assert compaction.tools
    assert compaction.has("keep the harbour")
    assert len(result.of("system", "compact_boundary")) == 1
    result, [asked] = turn("go on", text("Going on."))
    assert result.of("system", "compact_boundary") == []
    assert asked.has("Only the harbour matters.")
    assert not asked.has("say hello")

    # A conversation that the API calls too long is compacted, and continues from the summary in the same turn.
    api.script.compact(lambda request: summary(f"Compacted after {len(request.results)} results."))
    counting = (tool("Bash", command=f"seq {number}") for number in (1, 2))
    result, requests = turn("count", *counting, too_long(), text("Done."))
    assert result.text == "Done."
    assert len(api.compactions) == 2
    assert len(result.of("system", "compact_boundary")) == 1
    assert requests[-1].has("Compacted after")

    # After four cuts the client gives up, without a further request.
    result, requests = turn("tell", *(text(f"piece {n} and").cut(7) for n in range(4)))
    assert (result.result["is_error"], len(requests)) == (True, 4)
    assert result.of("assistant")[-1]["message"]["model"] == "<synthetic>"

    # A tool call that is cut again and again runs nothing, and ends where `--max-turns` says.
    result, _ = turn("make it", *[tool("Bash", command="touch granted-too").cut(20)] * 4)
    assert result.result["subtype"] == "error_max_turns"
    assert list(client.project.glob("granted-*")) == []

    # One process answered all of that, and named no address but loopback's, in a connection or in a datagram.
    assert running.wait().status == 1
    assert f"sin_port=htons({api.url.rpartition(':')[2]})" in (traced := trace.read_text())
    assert foreign(traced) == []


@pytest.mark.full  # tests/e2e/test_agents.py::test_other_errors_tell_their_reason
def test_an_error_is_told(client: Client, api: MessagesApi) -> None:
    """An error that asking again cannot fix ends the run with its message."""
    api.script.always(error(400, "the scripted refusal"))
    result = client.run("hello")
    assert result.status == 1
    assert "the scripted refusal" in result.text


# -- what must not continue -------------------------------------------------------------------------------------------


def instead(client: Client, script: str) -> Client:
    """The same installation with a shell script in place of the client: for what the harness does by itself."""
    path = client.home / "instead"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return replace(client, binary=path)


def test_a_client_that_hangs_up_is_reported(client: Client) -> None:
    """Speaking to a client that has ended fails the test, with its exit status and what it said on stderr."""
    running = instead(client, 'echo "$*" >&2; exit 1').start(None, extra=["--no-such-option"])
    running.process.wait()
    with pytest.raises(ClientFailed, match=r"(?s)exit status 1.*no-such-option"):
        running.turn("hello")


def test_an_exhausted_script_is_reported(client: Client, post: Post) -> None:
    """A client that asks for more than is scripted ends, and the test fails with the requests shown."""
    with MessagesApi() as api:
        api.script.reply(tool("Bash", command="echo more-than-scripted"))
        assert "more-than-scripted" in post(api, stream=True)
        assert "script exhausted" in post(api, stream=True, messages=[{"role": "user", "content": "more"}])
        with pytest.raises(ScriptFailed, match=r"(?s)ran out at request 2.*more-than-scripted"):
            instead(replace(client, api=api), "exit 0").run("begin")


def test_a_client_that_does_not_end_is_killed(client: Client, api: MessagesApi, post: Post) -> None:
    """A run whose time is over is killed with all that it started, and fails the test with the requests shown."""
    api.script.reply(tool("Bash", command="sleep 303"))
    post(api)
    waiting = instead(client, "sleep 303; exit")
    running = waiting.start("begin")
    until(lambda: "sleep 303" in [each.command for each in running.processes])
    with pytest.raises(ClientFailed, match=r"(?s)did not end within 0.1 s.*sleep 303"):
        running.wait(0.1)
    assert waiting.running == []


def test_a_killed_client_leaves_no_process(client: Client, api: MessagesApi) -> None:
    """A client killed amid a tool call ends with all that it started, also what its process group does not hold."""
    api.script.reply(tool("Bash", command="setsid sleep 301 & sleep 302; touch ended"))
    running = client.start("wait", allowed_tools=["Bash"])
    until(lambda: {"sleep 301", "sleep 302"} <= {each.command for each in running.processes})
    os.killpg(running.pid, signal.SIGKILL)
    running.process.wait()
    left = {each.command for each in running.processes}
    assert {"sleep 301", "sleep 302"} <= left
    assert left == {each.command for each in running.kill()}
    assert running.processes == client.running == []
    assert running.result.status == -signal.SIGKILL
    assert running.result.of("result") == []
    assert not (client.project / "ended").exists()


@pytest.mark.full  # tests/e2e/test_agents.py::test_a_turn_that_was_ended_can_be_resumed
def test_a_killed_client_leaves_a_session_to_resume(client: Client, api: MessagesApi) -> None:
    """A client killed while the model is silent can be resumed: the session keeps its id, and the model is sent what
    was said before and what the killed client had written down."""
    session = str(uuid4())
    api.script.reply(text("first answer") + tool("Bash", command="echo step-$((40+1))"), hang(), text("resumed"))
    running = client.start("--first prompt", session_id=session, allowed_tools=["Bash"])
    api.wait_for("step-41")
    until(lambda: "step-41" in str(client.transcript(session)))
    running.kill()
    result = client.run("--second prompt", resume=session)
    assert (result.status, result.text, result.session_id) == (0, "resumed", session)
    assert {each.session for each in api.turns} == {session}
    assert api.turns[0].prompt.endswith("--first prompt")
    assert all(api.turns[-1].has(words) for words in ("--first prompt", "first answer", "step-41", "--second prompt"))


def foreign(trace: str) -> list[str]:
    """The lines of an strace of network calls that name an address which is not of this machine."""
    named = re.compile(r"sa_family=(AF_INET6?)")
    own = re.compile(r'inet_addr\("127\.|inet_pton\(AF_INET6, "(::1|::ffff:127\.[\d.]+)"')
    return [line for line in trace.splitlines() if named.search(line) and not own.search(line)]


def test_a_foreign_address_is_seen() -> None:
    """Connections and datagrams to other machines are told from those to this one."""
    own = [
        '7 connect(4, {sa_family=AF_UNIX, sun_path="/var/run/nscd/socket"}, 110) = -1 ENOENT',
        '7 connect(4, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("127.0.0.1")}, 16) = 0',
        '7 connect(4, {sa_family=AF_INET6, sin6_port=htons(80), inet_pton(AF_INET6, "::1", &sin6_addr)}, 28) = 0',
    ]
    others = [
        '7 connect(4, {sa_family=AF_INET, sin_port=htons(443), sin_addr=inet_addr("192.0.2.1")}, 16) = -1',
        '7 sendto(4, "", 0, 0, {sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr("192.0.2.1")}, 16) = 0',
        '7 connect(4, {sa_family=AF_INET6, inet_pton(AF_INET6, "2001:db8::1", &sin6_addr)}, 28) = -1',
    ]
    assert foreign("\n".join([*own, *others])) == others


# -- plugins --------------------------------------------------------------------------------------------------------


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """A plugin with a hook at the start of a session, and a skill with an inlined command."""
    root = tmp_path / "a plugin"
    hook = {
        "hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "The hook says: mind the tide."}
    }
    command = 'cat "${CLAUDE_PLUGIN_ROOT}/hooks/said.json"'
    files = {
        ".claude-plugin/plugin.json": json.dumps({"name": "tide", "version": "1.2.3", "description": "For a test."}),
        "hooks/said.json": json.dumps(hook),
        "hooks/hooks.json": json.dumps(
            {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": command}]}]}}
        ),
        "bin/tide": '#!/bin/sh\necho "high water at $((20 + $1)) in $0"\n',
        "skills/water/SKILL.md": "---\nname: water\ndescription: Says when.\nallowed-tools:\n"
        '  - Bash("${CLAUDE_PLUGIN_ROOT}/bin/tide" *)\n---\n\nAsked: $ARGUMENTS.\n\n'
        '!`"${CLAUDE_PLUGIN_ROOT}/bin/tide" 2`\n',
    }
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    (root / "bin" / "tide").chmod(0o755)
    return root


def tells_the_tide(request: Request, root: Path) -> None:
    """The request has what the plugin's hook and its skill say."""
    assert request.has("The hook says: mind the tide.")
    assert request.has("Asked: when it is.")
    assert request.has(f"high water at 22 in {root}/bin/tide")


def test_a_plugin_is_installed_and_updated(client: Client, plugin: Path) -> None:
    """A plugin is installed into the cache; published again with a new version, it replaces the installed one."""
    root = client.install(plugin)
    assert root == client.home / ".claude/plugins/cache/market/tide/1.2.3"
    manifest = plugin / ".claude-plugin" / "plugin.json"
    manifest.write_text(manifest.read_text().replace("1.2.3", "1.3.0"))
    root = client.install(plugin)
    assert root.name == "1.3.0"


def test_publishing_takes_the_files_as_they_are(tmp_path: Path, plugin: Path) -> None:
    """What is published of a plugin's repository is its present files, not those ignored, deleted or committed."""
    repository = make_project(tmp_path / "repository")
    (repository / ".gitignore").write_text("ignored\n")
    (repository / "ignored").touch()
    (repository / "link").symlink_to("README.md")
    (repository / "gone").touch()
    (repository / ".claude-plugin").mkdir()
    (repository / ".claude-plugin/plugin.json").write_text('{"name": "tide"}')
    git(repository, "add", "--all")
    (repository / "gone").unlink()
    (repository / "README.md").write_text("changed\n")
    market = publish(repository, tmp_path / "market")
    listed = git(market / "repository", "ls-tree", "-r", "--name-only", "HEAD").split("\n")
    assert listed == [".claude-plugin/plugin.json", ".gitignore", "README.md", "link"]
    assert git(market / "repository", "show", "HEAD:README.md") == "changed"
    assert (market / "repository" / "link").is_symlink()
