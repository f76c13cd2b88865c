"""Writes tests/fixtures/github/openapi-subset.json again: what GitHub's own description of its API says about
the operations that faber uses, word for word, and the licence it comes under.

    python3 tests/github/make_subset.py

Needs npm. After a change of `VERSION` the tests show what of the fake, or of faber, no longer fits.
"""

import json
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

PACKAGE, VERSION = "@octokit/openapi", "23.0.2"
TARGET = Path(__file__).resolve().parents[1] / "fixtures" / "github"
OPERATIONS = (
    ("/repos/{owner}/{repo}/issues/{issue_number}", "get"),
    ("/repos/{owner}/{repo}/issues/{issue_number}/comments", "get"),
    ("/repos/{owner}/{repo}/issues/{issue_number}/comments", "post"),
    ("/repos/{owner}/{repo}/issues/comments/{comment_id}", "get"),
    ("/repos/{owner}/{repo}/issues/comments/{comment_id}", "patch"),
    ("/repos/{owner}/{repo}/issues/comments/{comment_id}/reactions", "get"),
    ("/repos/{owner}/{repo}/collaborators/{username}/permission", "get"),
    ("/repos/{owner}/{repo}/pulls/{pull_number}/reviews/{review_id}/comments", "get"),
    ("/user", "get"),
    ("/repos/{owner}/{repo}/pulls/{pull_number}/reviews/{review_id}", "get"),
    ("/repos/{owner}/{repo}/commits/{commit_sha}/pulls", "get"),
    ("/repos/{owner}/{repo}/check-runs/{check_run_id}", "get"),
    ("/repos/{owner}/{repo}/check-runs/{check_run_id}/annotations", "get"),
    ("/repos/{owner}/{repo}/actions/runs/{run_id}", "get"),
    ("/repos/{owner}/{repo}/actions/runs/{run_id}/jobs", "get"),
    ("/repos/{owner}/{repo}/actions/jobs/{job_id}/logs", "get"),
    ("/repos/{owner}/{repo}", "get"),
    ("/repos/{owner}/{repo}/pulls", "get"),
    ("/repos/{owner}/{repo}/pulls", "post"),
    ("/repos/{owner}/{repo}/pulls/{pull_number}", "get"),
    ("/repos/{owner}/{repo}/pulls/{pull_number}", "patch"),
)


def referenced(description: dict[str, Any], wanted: Any) -> dict[str, Any]:
    """`{"schemas": {name: …}, …}`: every component that `wanted` needs, directly or through others."""
    found: dict[str, Any] = {}
    waiting = [wanted]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
            reference = value.get("$ref")
            if isinstance(reference, str):
                _, _, kind, name = reference.split("/")
                if name not in found.setdefault(kind, {}):
                    found[kind][name] = description["components"][kind][name]
                    waiting.append(found[kind][name])
    return {kind: dict(sorted(names.items())) for kind, names in sorted(found.items())}


def subset(description: dict[str, Any]) -> dict[str, Any]:
    """The part of the description that is about `OPERATIONS`."""
    paths: dict[str, Any] = {}
    for path, method in OPERATIONS:
        paths.setdefault(path, {})[method] = description["paths"][path][method]
    about = {"openapi": description["openapi"], "info": description["info"]}
    return about | {
        "x-made-from": f"{PACKAGE}@{VERSION}, generated/api.github.com.json",
        "paths": paths,
        "components": referenced(description, paths),
    }


def main() -> None:
    """Fetch the package into a temporary directory and write the subset beside its licence."""
    with tempfile.TemporaryDirectory() as directory:
        packed = subprocess.run(
            ["npm", "pack", "--silent", f"{PACKAGE}@{VERSION}"],
            cwd=directory,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        with tarfile.open(Path(directory) / packed.stdout.split()[-1]) as archive:
            archive.extractall(directory, filter="data")
        package = Path(directory) / "package"
        description = json.loads((package / "generated" / "api.github.com.json").read_text("utf-8"))
        TARGET.mkdir(parents=True, exist_ok=True)
        made = json.dumps(subset(description), indent=1, ensure_ascii=False)
        (TARGET / "openapi-subset.json").write_text(made + "\n", "utf-8")
        shutil.copyfile(package / "LICENSE", TARGET / "LICENSE")


if __name__ == "__main__":
    main()
