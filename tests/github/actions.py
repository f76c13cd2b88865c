"""Runs the jobs of the example workflows on this machine: their own commands, environments and conditions.

Only what they use is understood; anything else fails the test. faber's own action is run step by step, as a runner
does. Other actions are replaced by what they do here: a checkout is a clone, an artifact a file that one machine leaves
for another, and what the runner installs is on the PATH already.
"""

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

Contexts = dict[str, Any]  # "github", "secrets", "vars", "needs", "inputs", "steps"
ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "github"
ACTION = ROOT / "action.yml"
_WORD = r"[\w.-]+"


class Ran(NamedTuple):
    """A step's command as it ended."""

    name: str
    status: int
    out: str
    err: str


class Failed(AssertionError):
    """A job that failed, with the step that did first."""

    def __init__(self, ran: Ran) -> None:
        super().__init__(ran)
        self.ran = ran


def jobs() -> dict[str, Any]:
    """The jobs of both workflows that are installed, by name; the one that only calls the other is left out."""
    found: dict[str, Any] = {}
    for name in ("faber.yml", "faber-continue.yml"):
        found |= yaml.safe_load((EXAMPLES / name).read_text("utf-8"))["jobs"]
    return {name: job for name, job in found.items() if "steps" in job}


def called(contexts: Contexts) -> Contexts | None:
    """The contexts of the workflow that `continue` calls after job decide; None where its condition does not hold."""
    job = yaml.safe_load((EXAMPLES / "faber.yml").read_text("utf-8"))["jobs"]["continue"]
    machine = Expressions(contexts)
    if not machine.holds(job["if"]):
        return None
    given = {name: machine.filled(value) for name, value in job["with"].items()}
    secrets = {name: machine.filled(value) for name, value in job["secrets"].items()}
    return {**contexts, "inputs": given, "secrets": secrets, "needs": {}}


class Expressions:
    """What expressions mean in given contexts."""

    def __init__(self, contexts: Contexts) -> None:
        self.contexts = contexts
        self.failed = False

    def holds(self, condition: str) -> bool:
        """Whether a condition does: comparisons, `contains` and `always()`, joined by `&&`, and those by `||`."""
        return any(all(self._one(part.strip()) for part in one.split("&&")) for one in condition.split("||"))

    def _one(self, condition: str) -> bool:
        if condition == "always()":
            return True
        if match := re.fullmatch(rf"contains\(({_WORD}), '([^']*)'\)", condition):
            return match[2] in self.value(match[1])
        match = re.fullmatch(rf"({_WORD}) ([!=]=) ('([^']*)'|{_WORD})", condition)
        assert match, f"no condition that is understood: {condition}"
        other = match[4] if match[4] is not None else self.value(match[3])
        return (self.value(match[1]) == other) is (match[2] == "==")

    def value(self, path: str) -> str:
        """The value of `github.event.…` and the like; empty where there is none."""
        value: Any = self.contexts
        for name in path.split("."):
            value = value[name] if value is self.contexts or name in value else ""
            if value == "":
                break
        assert isinstance(value, str), path
        return value

    def filled(self, text: str) -> str:
        """A text with its expressions replaced: a value, or the first of two that is not empty."""

        def fill(match: re.Match[str]) -> str:
            return self.value(match[1]) or (self.value(match[2]) if match[2] else "")

        filled = re.sub(rf"\$\{{\{{ ({_WORD})(?: \|\| ({_WORD}))? \}}\}}", fill, text)
        assert "${{" not in filled, filled
        return filled


class Runner:
    """A fresh machine for one job."""

    def __init__(
        self,
        workspace: Path,
        contexts: Contexts,
        environment: Mapping[str, str],
        *,
        clone_from: str,
        plugin: Path,
        artifacts: Path,
    ) -> None:
        """`environment` is every step's; a checkout of the project clones `clone_from` with its credential.

        `artifacts` is where the machines of one workflow leave files for each other.
        """
        self.workspace = workspace
        self.temporary = workspace / "temporary"
        self.ran: list[Ran] = []
        self._contexts = contexts
        self._environment = dict(environment)
        self._clone_from = clone_from
        self._plugin = plugin
        self._artifacts = artifacts

    def job(self, job: Mapping[str, Any]) -> dict[str, str] | None:
        """Run a job; its outputs, None where its condition does not hold. Raises `Failed`."""
        machine = Expressions({**self._contexts, "steps": {}})
        if "if" in job and not machine.holds(job["if"]):
            return None
        self.temporary.mkdir(parents=True)
        first = self._steps(job["steps"], machine)
        if first is not None:
            raise Failed(first)
        return {name: machine.filled(value) for name, value in job.get("outputs", {}).items()}

    def _steps(self, steps: Iterable[Mapping[str, Any]], machine: Expressions) -> Ran | None:
        """Run steps; the first that failed. One that fails ends all but those that are to run always."""
        failed: Ran | None = None
        for step in steps:
            condition = step.get("if", "")
            if (failed and "always()" not in condition) or not machine.holds(condition or "always()"):
                continue
            ran = self._use(step, machine) if "uses" in step else self._command(step, machine)
            failed = failed or (ran if ran and ran.status else None)
        return failed

    def _use(self, step: Mapping[str, Any], machine: Expressions) -> Ran | None:
        action = step["uses"].partition("@")[0]
        given = {name: machine.filled(str(value)) for name, value in step.get("with", {}).items()}
        kept = self._artifacts / given.get("name", "")
        if action.endswith("/faber"):
            return self._own(step, given, machine)
        if action == "actions/upload-artifact":
            source = Path(given["path"])
            if not source.is_file():
                return Ran(step["name"], 1, "", "there is no such file")
            kept.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, kept)
        elif action == "actions/download-artifact":
            if not kept.is_dir():
                return Ran(step["name"], 1, "", "there is no such artifact")
            shutil.copytree(kept, given["path"], symlinks=True)
        elif action == "actions/checkout":
            self._check_out(given)
        else:
            assert action == "actions/setup-node"
        return None

    def _own(self, step: Mapping[str, Any], given: Mapping[str, str], machine: Expressions) -> Ran | None:
        """faber's own action, with its inputs' defaults."""
        own = yaml.safe_load(ACTION.read_text("utf-8"))
        assert set(given) <= set(own["inputs"])
        inputs = {name: machine.filled(each.get("default", "")) for name, each in own["inputs"].items()}
        contexts = machine.contexts | {"inputs": inputs | dict(given), "steps": {}}
        inner = Expressions(contexts | {"runner": {"temp": str(self.temporary)}})
        failed = self._steps(own["runs"]["steps"], inner)
        outputs = {name: inner.filled(each["value"]) for name, each in own["outputs"].items()}
        if "id" in step:
            machine.contexts["steps"][step["id"]] = {"outputs": outputs}
        return failed

    def _check_out(self, given: Mapping[str, str]) -> None:
        target = str(self.workspace / given["path"])
        header = f"http.extraHeader={self._contexts['github']['_header']}"
        self._git(["git", "-c", header, "clone", "-q", "--template=", self._clone_from, target])
        if given["ref"]:
            self._git(["git", "-C", target, "checkout", "-q", given["ref"], "--"])

    def _git(self, command: Iterable[str]) -> None:
        subprocess.run(list(command), env=self._environment, check=True, capture_output=True)

    def _command(self, step: Mapping[str, Any], machine: Expressions) -> Ran | None:
        if "npm ci" in step["run"]:
            return None
        output = self.temporary / "output"
        output.write_bytes(b"")
        own = {
            "GITHUB_OUTPUT": str(output),
            "GITHUB_ENV": str(self.temporary / "env"),
            "GITHUB_PATH": str(self.temporary / "path"),
            "GITHUB_ACTION_PATH": str(self._plugin),
            "RUNNER_TEMP": str(self.temporary),
        }
        variables = {name: machine.filled(value) for name, value in step.get("env", {}).items()}
        # What a step writes there holds for those that follow it.
        for name, value in _rows(self.temporary / "env"):
            self._environment[name] = value
        for directory in reversed(_lines(self.temporary / "path")):
            self._environment["PATH"] = f"{directory}:{self._environment['PATH']}"
        (self.temporary / "path").unlink(missing_ok=True)
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.workspace / step["working-directory"],
            env=self._environment | own | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            start_new_session=True,  # a runner's steps have no terminal
        )
        if "id" in step:
            machine.contexts["steps"][step["id"]] = {"outputs": dict(_rows(output))}
        ran = Ran(step["name"], done.returncode, done.stdout, done.stderr)
        self.ran.append(ran)
        return ran


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def _rows(file: Path) -> list[tuple[str, str]]:
    return [(name, value) for name, _, value in (line.partition("=") for line in _lines(file))]
