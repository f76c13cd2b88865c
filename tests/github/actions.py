"""Runs the jobs of the example workflow on this machine: its own commands, environments and conditions.

Only what it uses is understood; anything else fails the test. An action is replaced by what it does here: a checkout
is a clone (of the plugin: a link to it), and what the runner installs is on the PATH already.
"""

import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

Contexts = dict[str, Any]  # "github", "secrets", "vars", "needs", "steps"
_WORD = r"[\w.-]+"


class Ran(NamedTuple):
    """A step's command as it ended."""

    name: str
    status: int
    out: str
    err: str


class Runner:
    """A fresh machine for one job."""

    def __init__(
        self, workspace: Path, contexts: Contexts, environment: Mapping[str, str], *, clone_from: str, plugin: Path
    ) -> None:
        """`environment` is every step's; a checkout of the project clones `clone_from` with its credential."""
        self.workspace = workspace
        self.ran: list[Ran] = []
        self._contexts = {**contexts, "steps": {}}
        self._environment = dict(environment)
        self._clone_from = clone_from
        self._plugin = plugin

    def job(self, job: Mapping[str, Any]) -> dict[str, str] | None:
        """Run a job; its outputs, None where its condition does not hold. A step that fails ends it, but `always()`."""
        if "if" in job and not self.holds(job["if"]):
            return None
        self.workspace.mkdir()
        failed: Ran | None = None
        for step in job["steps"]:
            if (failed and step.get("if") != "always()") or not self.holds(step.get("if", "always()")):
                continue
            if "uses" in step:
                self._use(step["uses"], step.get("with", {}))
                continue
            ran = self._command(step)
            self.ran.append(ran)
            failed = failed or (ran if ran.status else None)
        assert failed is None, failed
        return {name: self._filled(value) for name, value in job.get("outputs", {}).items()}

    def holds(self, condition: str) -> bool:
        """Whether a condition does: comparisons and `contains`, joined by `&&`, and `always()`."""
        return all(self._one(part.strip()) for part in condition.split("&&"))

    def _one(self, condition: str) -> bool:
        if condition == "always()":
            return True
        if match := re.fullmatch(rf"contains\(({_WORD}), '([^']*)'\)", condition):
            return match[2] in self._value(match[1])
        match = re.fullmatch(rf"({_WORD}) ([!=]=) '([^']*)'", condition)
        assert match, f"no condition that is understood: {condition}"
        return (self._value(match[1]) == match[3]) is (match[2] == "==")

    def _value(self, path: str) -> str:
        value: Any = self._contexts
        for name in path.split("."):
            value = value[name] if name in value or value is self._contexts else ""
            if value == "":
                break
        assert isinstance(value, str), path
        return value

    def _filled(self, text: str) -> str:
        filled = re.sub(rf"\$\{{\{{ ({_WORD}) \}}\}}", lambda match: self._value(match[1]), text)
        assert "${{" not in filled, filled
        return filled

    def _use(self, action: str, given: Mapping[str, str]) -> None:
        if not action.startswith("actions/checkout@"):
            assert action.startswith("actions/setup-node@")
            return
        target = self.workspace / given["path"]
        if "repository" in given:
            target.symlink_to(self._plugin)
            return
        header = f"http.extraHeader={self._contexts['github']['_header']}"
        self._git(["git", "-c", header, "clone", "-q", "--template=", self._clone_from, str(target)])
        self._git(["git", "-C", str(target), "checkout", "-q", "--detach", self._filled(given["ref"])])

    def _git(self, command: Iterable[str]) -> None:
        subprocess.run(list(command), env=self._environment, check=True, capture_output=True)

    def _command(self, step: Mapping[str, Any]) -> Ran:
        if step["run"].startswith("npm install"):
            return Ran(step["name"], 0, "", "")
        output = self.workspace / "output"
        output.write_bytes(b"")
        variables = {name: self._filled(value) for name, value in step.get("env", {}).items()}
        done = subprocess.run(
            ["bash", "-e", "-c", step["run"]],
            cwd=self.workspace / step["working-directory"],
            env=self._environment | {"GITHUB_OUTPUT": str(output)} | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if "id" in step:
            rows = (line.partition("=") for line in output.read_text().splitlines())
            self._contexts["steps"][step["id"]] = {"outputs": {name: value for name, _, value in rows}}
        return Ran(step["name"], done.returncode, done.stdout, done.stderr)
