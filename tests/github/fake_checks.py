"""The checks of the GitHub of the tests: check runs, workflows' runs with their jobs, logs on another host, and the
pull requests that they are about."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from github.description import Operation, example

if TYPE_CHECKING:
    from github.fake import FakeGitHub

Answer = tuple[int, dict[str, str], Any]


class FakeChecks:
    """What there is; `fetched` has the headers of each request for a log, which another host than the API has."""

    def __init__(self, github: "FakeGitHub") -> None:
        self.github = github
        self.pulls: dict[int, dict[str, Any]] = {}
        self.checks: dict[int, dict[str, Any]] = {}
        self.workflows: dict[int, dict[str, Any]] = {}
        self.jobs: dict[int, list[dict[str, Any]]] = {}
        self.annotations: dict[int, list[dict[str, Any]]] = {}
        self.logs: dict[int, str] = {}
        self.reviews: dict[int, dict[str, Any]] = {}
        self.fetched: list[dict[str, str]] = []
        self._elsewhere: ThreadingHTTPServer | None = None

    def pull(
        self, number: int, branch: str, commit: str, *, repository: str | None = None, state: str = "open"
    ) -> None:
        """A pull request of that branch, at that commit, from a branch of `repository`."""
        made = example("pull-request") | {"number": number, "state": state, "requested_teams": []}
        made["head"] |= {"ref": branch, "sha": commit}
        made["head"]["repo"] |= {"full_name": repository or self.github.slug}
        made["base"]["repo"] |= {"full_name": self.github.slug}
        made["html_url"] = f"https://github.com/{self.github.slug}/pull/{number}"
        self.pulls[number] = made

    def check(
        self,
        number: int,
        name: str,
        commit: str,
        *,
        conclusion: str | None = "failure",
        app: str = "some-ci",
        pulls: tuple[int, ...] = (9,),
        summary: str = "",
    ) -> None:
        """A check run that has ended (`conclusion`), or not."""
        made = example("check-run") | {"id": number, "name": name, "head_sha": commit, "conclusion": conclusion}
        made["status"] = "completed" if conclusion else "in_progress"
        made["html_url"] = f"https://github.com/{self.github.slug}/runs/{number}"
        made["output"] |= {"title": None, "summary": summary or None, "text": None, "annotations_count": 0}
        made["app"] |= {"slug": app}
        (pull,) = made["pull_requests"][:1]
        made["pull_requests"] = [pull | {"number": each} for each in pulls]
        self.checks[number] = made

    def workflow(
        self,
        number: int,
        name: str,
        commit: str,
        jobs: dict[int, tuple[str, str, str | None]],
        conclusion: str = "failure",
        repository: str | None = None,
    ) -> None:
        """A workflow's run that has ended, for a branch of `repository`, without pull requests; its jobs have a name,
        a conclusion, and a log."""
        made = example("workflow-run") | {"id": number, "name": name, "head_sha": commit, "conclusion": conclusion}
        made |= {"status": "completed", "pull_requests": []}
        made["head_repository"] |= {"full_name": repository or self.github.slug}
        made["html_url"] = f"https://github.com/{self.github.slug}/actions/runs/{number}"
        self.workflows[number] = made
        job = example("job-paginated")["jobs"][0] | {"created_at": "2020-01-20T17:40:39Z"}
        self.jobs[number] = []
        for job_id, (job_name, ended, log) in jobs.items():
            self.jobs[number].append(job | {"id": job_id, "name": job_name, "conclusion": ended, "status": "completed"})
            self.check(job_id, job_name, commit, conclusion=ended, app="github-actions")
            if log is not None:
                self.logs[job_id] = log

    def annotate(self, number: int, path: str, line: int, message: str) -> None:
        """An annotation of a check run."""
        note = example("check-annotation-items")[0] | {"path": path, "start_line": line, "message": message}
        self.annotations.setdefault(number, []).append(note | {"annotation_level": "failure"})
        self.checks[number]["output"]["annotations_count"] += 1

    def review(self, number: int, state: str) -> None:
        """A review of a pull request."""
        self.reviews[number] = example("pull-request-review-4") | {"id": number, "state": state}

    def answer(self, asked: Operation) -> Answer | None:
        """The answer to a request that is about checks; None for any other."""
        given = {name: value for name, value in asked.parameters.items() if name not in ("owner", "repo")}
        if "check_run_id" in given:
            number = int(given["check_run_id"])
            if asked.path.endswith("annotations"):
                return 200, {}, self.annotations.get(number, [])
            return self._one(self.checks, number)
        if "run_id" in given:
            number = int(given["run_id"])
            if asked.path.endswith("jobs"):
                jobs = self.jobs.get(number, [])
                return 200, {}, {"total_count": len(jobs), "jobs": jobs}
            return self._one(self.workflows, number)
        if "job_id" in given:
            return self._log(int(given["job_id"]))
        if "commit_sha" in given:
            simple = example("pull-request-simple-items")[0] | {"requested_teams": []}
            numbers = [number for number, pull in self.pulls.items() if pull["head"]["sha"] == given["commit_sha"]]
            opened = self.github.pulls
            numbers += [n for n, pull in opened.found.items() if opened.head(pull["head"]) == given["commit_sha"]]
            return 200, {}, [simple | {"number": number} for number in numbers]
        if "review_id" in given and not asked.path.endswith("comments"):
            return self._one(self.reviews, int(given["review_id"]))
        if asked.path.endswith("{pull_number}") and asked.method == "get" and int(given["pull_number"]) in self.pulls:
            return self._one(self.pulls, int(given["pull_number"]))
        return None

    def _one(self, there: dict[int, dict[str, Any]], number: int) -> Answer:
        if number not in there:
            return 404, {}, {"message": "Not Found", "documentation_url": "https://docs.github.com/rest"}
        return 200, {}, json.loads(json.dumps(there[number]))

    def _log(self, job: int) -> Answer:
        if job not in self.logs:
            return 410, {}, {"message": "Gone", "documentation_url": "https://docs.github.com/rest"}
        if self._elsewhere is None:
            self._elsewhere = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
            threading.Thread(target=self._elsewhere.serve_forever, args=(0.02,), daemon=True).start()
        return 302, {"Location": f"http://localhost:{self._elsewhere.server_address[1]}/logs/{job}?sig=x%2By"}, None

    def close(self) -> None:
        """End the other host."""
        if self._elsewhere is not None:
            self._elsewhere.shutdown()
            self._elsewhere.server_close()


def _handler(checks: FakeChecks) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

        def do_GET(self) -> None:
            checks.fetched.append({name.lower(): value for name, value in self.headers.items()})
            data = checks.logs[int(self.path.partition("?")[0].rpartition("/")[2])].encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler
