"""What GitHub's API says about a failed check: its conclusion now, its commit, its pull requests, and why it failed.

An event only says which check to ask for.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import NamedTuple, Protocol

from faber.feedback.reopening import CheckEvidence
from faber.github.api_values import Payload, as_object, text_of
from faber.github_events.check_logs import READ_BYTES, last_lines, plain_lines
from faber.sources.work_items import WorkItemError, WorkItemInvalid
from faber.text.safe_text import one_line, without

FAILED = frozenset({"failure", "timed_out"})
CHECK, WORKFLOW = "check_run", "workflow_run"
MOST_JOBS = 5
MOST_PULLS = 10
NAME_CHARS = 100
_ACTIONS = "github-actions"


class RepositoryApi(Protocol):
    """Reads of one repository over GitHub's API; every method raises only `WorkItemError`."""

    def read(self, path: str) -> object:
        """What the API answers about the repository at `path`."""

    def read_end(self, path: str, most: int) -> str:
        """The last `most` bytes of a text of the repository."""


class CheckFacts(NamedTuple):
    """A check as the API describes it now. `repository` is the one whose branch a workflow ran for: a fork can offer
    this commit against another base. It is empty where that was deleted, and None of a check, which does not say."""

    kind: str
    number: int
    name: str
    conclusion: str
    commit: str
    url: str
    pulls: tuple[int, ...]
    app: str
    output: Payload
    repository: str | None

    @property
    def source(self) -> str:
        """What the check is called in the log: the same for the same check of the same commit."""
        return f"check-{self.commit}-{sha256(f'{self.kind} {self.app} {self.name}'.encode()).hexdigest()[:16]}"


class PullFacts(NamedTuple):
    """A pull request; `head_repository` is empty where that was deleted."""

    number: int
    state: str
    head_repository: str
    head_branch: str
    head_commit: str
    base: str


class Explained(NamedTuple):
    """Why a check failed, and a warning for what could not be read."""

    evidence: list[CheckEvidence]
    warnings: list[dict[str, object]]


def read_check(api: RepositoryApi, kind: str, number: int) -> CheckFacts:
    """A check run, or the run of a workflow."""
    answer = as_object(api.read(f"{'check-runs' if kind == CHECK else 'actions/runs'}/{number}"))
    app, output, head = answer.get("app"), answer.get("output"), answer.get("head_repository")
    repository = text_of(head, "full_name") if isinstance(head, dict) else ""
    return CheckFacts(
        kind,
        number,
        _name(answer.get("name") or answer.get("path")) or "(no name)",
        text_of(answer, "conclusion") if answer.get("status") == "completed" else "",
        _commit(answer, "head_sha"),
        _url(answer),
        tuple(_pulls(answer.get("pull_requests"))),
        text_of(app, "slug") if isinstance(app, dict) else "",
        output if isinstance(output, dict) else {},
        repository if kind == WORKFLOW else None,
    )


def pulls_of(api: RepositoryApi, check: CheckFacts) -> Sequence[int]:
    """The numbers of the pull requests that the check's commit belongs to."""
    return check.pulls or tuple(_pulls(api.read(f"commits/{check.commit}/pulls")))[:MOST_PULLS]


def read_pull(api: RepositoryApi, number: int) -> PullFacts:
    """A pull request."""
    answer = as_object(api.read(f"pulls/{number}"))
    head = as_object(answer.get("head"))
    repository = head.get("repo")
    return PullFacts(
        number,
        text_of(answer, "state"),
        text_of(repository, "full_name") if isinstance(repository, dict) else "",
        text_of(head, "ref"),
        _commit(head, "sha"),
        text_of(as_object(answer.get("base")), "ref"),
    )


def review_state(api: RepositoryApi, number: int, review: int) -> str:
    """What a review of the pull request says: `commented`, `approved`, `changes_requested`, …"""
    return text_of(as_object(api.read(f"pulls/{number}/reviews/{review}")), "state").lower()


def review_evidence(name: str, state: str, url: str, text: str) -> CheckEvidence:
    """A review as evidence: its author may answer, so that what it says is no text of a stranger."""
    return {
        "kind": "review",
        "name": name,
        "conclusion": state,
        "url": url,
        "output": text,
        "untrusted": False,
    }


def explain_check(api: RepositoryApi, check: CheckFacts, secrets: Iterable[str]) -> Explained:
    """Why the check failed: of a workflow each failed job, with the end of its log; else what the check itself says."""
    found = Explained([], [])
    secrets = tuple(secrets)
    if check.kind == CHECK:
        said = _log(api, check.number, secrets, found) if check.app == _ACTIONS else ""
        said = said or _own_words(api, check.number, check.output, secrets, found)
        found.evidence.append(_evidence(check.name, check.conclusion, check.url, said))
        return found
    try:
        answer = as_object(api.read(f"actions/runs/{check.number}/jobs?filter=latest&per_page=100"))
        jobs = [as_object(job) for job in _list(answer.get("jobs"))]
        failed = [job for job in jobs if job.get("conclusion") in FAILED][:MOST_JOBS]
    except WorkItemError as error:
        failed = []
        found.warnings.append(_unread("jobs_not_read", error))
    for job in failed:
        number = job.get("id")
        name = without(_name(f"{check.name} / {job.get('name') or ''}"), secrets)
        said = ""
        if isinstance(number, int) and number > 0:
            said = _log(api, number, secrets, found) or _own_words(api, number, None, secrets, found)
        found.evidence.append(_evidence(name, str(job["conclusion"]), _url(job), said))
    if not failed:
        found.evidence.append(_evidence(check.name, check.conclusion, check.url, ""))
    return found


def _evidence(name: str, conclusion: str, url: str, output: str) -> CheckEvidence:
    return {
        "kind": "check",
        "name": name,
        "conclusion": conclusion,
        "url": url,
        "output": output,
        "untrusted": True,
    }


def _log(api: RepositoryApi, job: int, secrets: Sequence[str], found: Explained) -> str:
    """The last lines of a job's log: it may have expired, or the credential may not read it."""
    try:
        return last_lines(api.read_end(f"actions/jobs/{job}/logs", READ_BYTES), secrets)
    except WorkItemError as error:
        found.warnings.append(_unread("log_not_read", error))
        return ""


def _own_words(
    api: RepositoryApi, number: int, output: Payload | None, secrets: Sequence[str], found: Explained
) -> str:
    """What a check says about itself (`output` where it is known), and its annotations."""
    lines = []
    try:
        if output is None:
            output = as_object(as_object(api.read(f"check-runs/{number}")).get("output"))
        lines = [said for key in ("title", "summary", "text") if isinstance(said := output.get(key), str)]
        if output.get("annotations_count"):
            lines += _annotations(api.read(f"check-runs/{number}/annotations?per_page=50"))
    except WorkItemError as error:
        found.warnings.append(_unread("annotations_not_read", error))
    return plain_lines("\n".join(lines), secrets)


def _annotations(answer: object) -> list[str]:
    return [
        f"{note.get('path')}:{note.get('start_line')}: {note.get('annotation_level')}: {note.get('message')}"
        for note in map(as_object, _list(answer))
    ]


def _unread(code: str, error: WorkItemError) -> dict[str, object]:
    return {"code": code, "message": error.message}


def _name(given: object) -> str:
    """A name as it may stand in a sentence, between quotation marks."""
    return one_line(str(given or ""), NAME_CHARS).replace('"', "'")


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise WorkItemInvalid("GitHub's answer is not a list.")
    return value


def _commit(value: Payload, key: str) -> str:
    found = text_of(value, key)
    if len(found) not in (40, 64) or not set(found) <= set("0123456789abcdef"):
        raise WorkItemInvalid(f"GitHub's answer has no {key}.")
    return found


def _pulls(value: object) -> list[int]:
    numbers = [pull.get("number") for pull in map(as_object, value if isinstance(value, list) else [])]
    return [number for number in numbers if isinstance(number, int) and not isinstance(number, bool) and number > 0]


def _url(value: Payload) -> str:
    url = value.get("html_url")
    plain = isinstance(url, str) and url.startswith(("https://", "http://")) and url.isascii() and len(url) <= 500
    return one_line(str(url), 500) if plain else ""
