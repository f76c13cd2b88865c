"""Print, as Markdown, a session of the real client that is killed in the middle of a step, and the one that goes on.

Usage:
    FABER_TEST_CLAUDE=… python tests/e2e/transcript.py [--write]

The model is scripted (it says what is in this file); everything else is real: the client, the plugin, its hooks, the
run store. What differs from run to run (ids, times, paths) is replaced. `--write` replaces docs/transcript.md.
"""

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any
from uuid import uuid4

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "scripts")]

from e2e.client import Client  # noqa: E402 - the path is set first
from e2e.messages_api import MessagesApi  # noqa: E402
from e2e.replies import Reply, hang, text, tool  # noqa: E402
from e2e.repositories import git, make_project  # noqa: E402

TARGET = ROOT / "docs" / "transcript.md"
HEAD = """# A session is killed, and the next one goes on

Written by `tests/e2e/transcript.py` with the real client. The model's words are scripted; the calls, the answers,
the hook and the run store are real. Ids, times and paths are replaced; a test keeps this page current.

"""


def say(arguments: str) -> Reply:
    """The model calls faber."""
    return tool("Bash", command=f'"{ROOT}/bin/faber" {arguments}')


def played(binary: str, directory: Path) -> str:
    """Both sessions, as Markdown."""
    project = make_project(directory / "report-tool")
    git(project, "remote", "add", "origin", "https://example.invalid/acme/report-tool.git")
    with MessagesApi() as api:
        client = Client(binary, directory / "home", project, api, plugin_dir=ROOT)
        try:
            return _first(client, api) + _second(client, api)
        finally:
            client.close()


def _first(client: Client, api: MessagesApi) -> str:
    api.script.reply(
        say("run begin '158'"),
        say("context latest --record"),
        say("next latest"),
        say("step start latest frame:fetch-work"),
        say("step complete latest frame:fetch-work --message 'CSV export of reports, streamed'"),
        say("event emit latest --type decision_point --message 'csv module, no new dependency'"),
        say("step start latest frame:classify"),
        hang(),
    )
    running = client.start("/faber:run 158")
    api.wait_for(lambda request: any("step_start" in r.text and "classify" in r.text for r in request.results))
    shown = _calls(api.turns[-1].messages)
    running.kill()
    api.script.clear()
    return f"## First session\n\n```text\n> /faber:run 158\n\n{shown}```\n\nThe client is ended with SIGKILL.\n\n"


def _second(client: Client, api: MessagesApi) -> str:
    seen = len(api.turns)
    api.script.reply(say("next latest"), say("context latest --record"), say("next latest"), text("Going on."))
    result = client.run("go on", session_id=uuid4())
    told = next(t for t in api.turns[seen].texts if "Next command" in t)
    capsule = told[told.index("faber: ") :].split("\n\n")[0]  # what follows is the client's own
    return (
        "## Next session\n\nWhat the model is told before the person says anything:\n\n"
        f"```text\n{capsule.strip()}\n```\n\n```text\n> go on\n\n{_calls(api.turns[-1].messages)}{result.text}\n```\n"
    )


def _calls(messages: Any) -> str:
    """The calls of a conversation and what faber answered, shortened to what matters."""
    shown = ""
    for message in messages:
        for block in message["content"] if isinstance(message["content"], list) else []:
            if block["type"] == "tool_use":
                shown += f"$ {block['input']['command']}\n"
            elif block["type"] == "tool_result":
                content = block["content"]
                said = content if isinstance(content, str) else content[0]["text"]
                shown += _short(json.loads(said[said.index("{") :])) + "\n\n"
    return shown


def _short(answer: dict[str, Any]) -> str:
    keys = ("action", "status", "resume_point", "phase", "step", "mode", "instruction", "complete_with", "why", "error")
    kept = {key: answer[key] for key in ("run_id", *keys) if answer.get(key) is not None}
    return "\n".join(f"  {key}: {json.dumps(value)}" for key, value in kept.items())


def steady(markdown: str) -> str:
    """What differs from run to run, replaced."""
    markdown = markdown.replace(f'"{ROOT}/bin/faber"', "faber").replace(f"{ROOT}/bin/faber", "faber")
    markdown = re.sub(r"acme/report-tool/[0-9a-f-]{36}", "acme/report-tool/7c1d4a52", markdown)
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "2026-01-09T10:00:00Z", markdown)


def transcript(binary: str) -> str:
    """The whole page."""
    with tempfile.TemporaryDirectory() as directory:
        return HEAD + steady(played(binary, Path(directory)))


if __name__ == "__main__":
    page = transcript(os.environ["FABER_TEST_CLAUDE"])
    if "--write" in sys.argv[1:]:
        TARGET.write_text(page, encoding="utf-8")
    else:
        sys.stdout.write(page)
