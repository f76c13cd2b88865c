"""Writes tests/fixtures/github/webhooks again: real payloads of GitHub's events, and what the community
knows of their shape as a JSON Schema. Both are under the MIT licence, as LICENSE there says.

    python3 tests/github/make_webhooks.py

Needs npm. The payloads are of GitHub's fictional user Codertocat; the one real author of a commit is replaced, and
nothing else is changed.
"""

import json
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

VERSION = "7.6.1"
EXAMPLES, SCHEMAS = "@octokit/webhooks-examples", "@octokit/webhooks-schemas"
TARGET = Path(__file__).resolve().parents[1] / "fixtures" / "github" / "webhooks"
# Of an event's examples, by their place in the package: comments created twice, deleted, edited; a review submitted.
# A check that failed, a workflow's run, and a comment on a line.
CHOSEN = {
    "issue_comment": (2, 4, 6, 8),
    "pull_request_review": (3,),
    "pull_request_review_comment": (1,),
    "check_run": (1,),
    "workflow_run": (1,),
}
AUTHOR = {"email": "21031067+Codertocat@users.noreply.github.com", "name": "Codertocat"}
ACTIONS = {
    "issue_comment": ("created", "deleted", "edited"),
    "pull_request_review": ("submitted", "dismissed"),
    "pull_request_review_comment": ("created",),
    "check_run": ("completed",),
    "workflow_run": ("completed",),
}


def package(name: str, directory: Path) -> Path:
    """A package of that name, unpacked."""
    packed = subprocess.run(
        ["npm", "pack", "--silent", f"{name}@{VERSION}"], cwd=directory, check=True, stdout=subprocess.PIPE, text=True
    )
    target = directory / name.rpartition("/")[2]
    with tarfile.open(directory / packed.stdout.split()[-1]) as archive:
        archive.extractall(target, filter="data")
    return target / "package"


def needed(definitions: dict[str, Any], roots: list[str]) -> dict[str, Any]:
    """The definitions of that name and all that they refer to."""
    found: dict[str, Any] = {}
    waiting: list[Any] = [{"$ref": f"#/definitions/{name}"} for name in roots]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
            reference = value.get("$ref")
            if isinstance(reference, str) and (name := reference.rpartition("/")[2]) not in found:
                found[name] = definitions[name]
                waiting.append(found[name])
    return dict(sorted(found.items()))


def write(name: str, value: Any) -> None:
    """One file of the fixture."""
    (TARGET / name).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", "utf-8")


def main() -> None:
    """Fetch both packages into a temporary directory and write what is needed of them."""
    TARGET.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        listed = json.loads((package(EXAMPLES, directory) / "api.github.com" / "index.json").read_text("utf-8"))
        for event, places in CHOSEN.items():
            examples = next(entry["examples"] for entry in listed if entry["name"] == event)
            for place in places:
                if commit := examples[place].get(event, {}).get("head_commit"):
                    commit["author"] |= AUTHOR
            write(f"{event}.json", [examples[place] for place in places])
        definitions = json.loads((package(SCHEMAS, directory) / "schema.json").read_text("utf-8"))["definitions"]
        roots = [f"{event}${action}" for event, actions in ACTIONS.items() for action in actions]
        write("schema.json", {"definitions": needed(definitions, roots)})


if __name__ == "__main__":
    main()
