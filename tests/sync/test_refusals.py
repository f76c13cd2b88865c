"""Remotes that refuse or are not there, branches that cannot go along, credentials, and checkouts as CI makes them."""

import base64
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from faber.events.pull_request_events import pull_request_closed
from faber.model.acceptance import Decision
from faber.store.appending import Writer
from faber.store.commit import commit
from faber.store.layout import Layout
from faber.sync import branches
from support.logs import rewrite_event
from sync.clones import MAIN, REF, RUN, Clone, MakeClone, ask, work

TOKEN = "ghp_" + "k3" * 18


def remote_refs(bare: Path) -> str:
    """Every ref of the remote, with its object."""
    done = subprocess.run(["git", "-C", bare, "for-each-ref"], check=True, capture_output=True, text=True)
    return done.stdout


def hook(bare: Path, script: str) -> None:
    """A pre-receive hook of the remote."""
    path = bare / "hooks" / "pre-receive"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


# --- the remote -------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["push", "pull", "status"])
@pytest.mark.parametrize(
    "name", ["nowhere", "--upload-pack=touch hacked", "-rf", "ext::sh -c true", "", "../remote.git"]
)
def test_only_a_configured_remote_is_asked(a: Clone, command: str, name: str) -> None:
    """A name that is not a configured remote is a usage error and never reaches git as an option or an address."""
    refused = a.faber("sync", command, RUN, f"--remote={name}")
    assert (refused.status, refused.error["code"]) == (2, "remote_unknown")
    assert refused.error["known"] == ["origin"]
    assert not (a.path / "hacked").exists()


def test_a_configured_name_can_still_be_no_name(a: Clone) -> None:
    """A remote whose configured name looks like an option is refused too."""
    a.git("config", "remote.--upload-pack=touch hacked.url", str(a.path))
    assert a.faber("sync", "push", RUN, "--remote=--upload-pack=touch hacked").error["code"] == "remote_unknown"


def test_no_repository_and_no_remote(a: Clone, tmp_path: Path) -> None:
    """Outside a repository, and in one without a remote, the error says so."""
    a.git("remote", "remove", "origin")
    assert a.faber("sync", "push", RUN).error["code"] == "remote_unknown"
    bare_store = Clone(tmp_path / "plain")
    bare_store.path.mkdir()
    bare_store.must("run", "init", "--run-id", RUN)
    assert bare_store.faber("sync", "push", RUN).error["code"] == "no_repository"


def test_status_without_a_remote_is_an_answer(a: Clone, tmp_path: Path) -> None:
    """Where no remote is configured, or another than the default one, or no repository is there, status shows this
    machine's runs and says how to name a remote; a remote that was named must exist."""
    a.git("remote", "rename", "origin", "work")
    answer = a.must("sync", "status")
    assert (answer["remote"], answer["known"]) == (None, ["work"])
    assert [(entry["run_id"], entry["relation"]) for entry in answer["runs"]] == [(RUN, "local_only")]
    assert "--remote" in answer["recovery"]
    a.git("remote", "remove", "work")
    assert a.must("sync", "status", RUN)["known"] == []
    assert a.faber("sync", "status", "--remote", "origin").error["code"] == "remote_unknown"
    assert a.faber("sync", "status", "nothing").error["code"] == "run_not_found"
    plain = Clone(tmp_path / "plain")
    plain.path.mkdir()
    assert plain.must("sync", "status")["runs"] == []
    plain.must("run", "init", "--run-id", RUN)
    answer = plain.must("sync", "status", "--all")
    assert ([entry["run_id"] for entry in answer["runs"]], answer["known"]) == ([RUN], [])


@pytest.mark.parametrize("command", ["push", "pull", "status"])
def test_a_remote_that_is_not_there(a: Clone, command: str) -> None:
    """A path that is gone and a port nobody listens on end in `remote_unreachable`, with the run as it was."""
    work(a, "More")
    before = a.events()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for address in ("/nowhere/at/all.git", f"http://127.0.0.1:{port}/x.git", "ssh://127.0.0.1:1/x.git"):
        a.git("remote", "set-url", "origin", address)
        refused = a.faber("sync", command, RUN)
        assert (refused.status, refused.error["code"]) == (1, "remote_unreachable"), refused
        assert refused.error["recovery"]
    assert a.events() == before


def test_a_program_is_no_address(a: Clone) -> None:
    """An address that is a program to run is not run."""
    a.git("remote", "set-url", "origin", f"ext::sh -c 'touch {a.path}/hacked'")
    assert a.faber("sync", "push", RUN).status == 1
    assert not (a.path / "hacked").exists()


def test_a_remote_that_rejects_the_ref(a: Clone, bare: Path) -> None:
    """A hook's refusal is told in its words, without credentials; here the run is unchanged and can be pushed later."""
    hook(bare, f"echo 'No runs here, {TOKEN}' >&2; exit 1")
    work(a, "More")
    before, refs = a.events(), remote_refs(bare)
    refused = a.faber("sync", "push", RUN)
    assert (refused.status, refused.error["code"]) == (4, "remote_rejected")
    assert "No runs here" in refused.error["message"]
    assert TOKEN not in json.dumps(refused.json) + refused.words
    assert (a.events(), remote_refs(bare)) == (before, refs)
    (bare / "hooks" / "pre-receive").unlink()
    assert a.must("sync", "push", RUN)["events"] == 1


def test_a_hidden_ref_is_rejected(a: Clone, bare: Path) -> None:
    """A remote that takes no such refs at all ends in the same error."""
    subprocess.run(["git", "-C", bare, "config", "receive.hideRefs", "refs/faber"], check=True)
    a.must("run", "init", "--run-id", "other")
    assert a.faber("sync", "push", "other").error["code"] == "remote_rejected"


def test_a_remote_that_never_answers(a: Clone, bare: Path) -> None:
    """What takes longer than --timeout is ended with all that it started, and said."""
    work(a, "More")
    hook(bare, f"echo $$ > {bare}/pid; sleep 60")
    refused = a.faber("sync", "push", RUN, "--timeout", "2")
    assert (refused.status, refused.error["code"]) == (1, "remote_timeout")
    (bare / "hooks" / "pre-receive").unlink()
    assert a.must("sync", "push", RUN)["events"] == 1


class _Locked(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.asked.append(self.headers.get("Authorization"))  # type: ignore[attr-defined]
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        return


@pytest.fixture
def locked_server() -> Iterator[ThreadingHTTPServer]:
    """A git server that lets nobody in, and remembers what it was shown."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Locked) as server:
        server.asked = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_nobody_is_asked_for_a_password(
    a: Clone, locked_server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A remote that wants a password is `remote_auth` at once: no terminal and no dialog is opened."""
    asker = a.path / "asker"
    asker.write_text(f"#!/bin/sh\ntouch {a.path}/asked\necho secret\n")
    asker.chmod(0o755)
    for name in ("GIT_ASKPASS", "SSH_ASKPASS"):
        monkeypatch.setenv(name, str(asker))
    a.git("config", "core.askPass", str(asker))
    a.git("remote", "set-url", "origin", f"http://127.0.0.1:{locked_server.server_port}/x.git")
    refused = a.faber("sync", "push", RUN)
    assert (refused.status, refused.error["code"]) == (4, "remote_auth")
    assert not (a.path / "asked").exists()


@pytest.mark.parametrize("place", ["repository", "environment"])
def test_credentials_of_a_ci_checkout_are_used(
    a: Clone, locked_server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """A header in git's configuration, the repository's or one of variables, goes along and is never printed."""
    header = base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
    address = f"http://127.0.0.1:{locked_server.server_port}/"
    if place == "repository":
        a.git("config", f"http.{address}.extraheader", f"AUTHORIZATION: basic {header}")
    else:
        monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
        monkeypatch.setenv("GIT_CONFIG_KEY_0", f"http.{address}.extraheader")
        monkeypatch.setenv("GIT_CONFIG_VALUE_0", f"AUTHORIZATION: basic {header}")
    a.git("remote", "set-url", "origin", f"{address}x.git")
    refused = a.faber("sync", "status")
    assert refused.error["code"] == "remote_auth"
    assert f"basic {header}" in locked_server.asked  # type: ignore[attr-defined]
    assert header not in json.dumps(refused.json) + refused.words


# --- the branch -------------------------------------------------------------------------------------


def test_the_branch_goes_along(a: Clone, b: Clone) -> None:
    """Branch and run arrive in one push, and together on the other machine; checked out, it is only told."""
    new = a.commit("two.txt")
    work(a, "Two files")
    a.must("sync", "push", RUN)
    assert a.git("ls-remote", "origin", "refs/heads/feat/7").split()[0] == new
    assert b.must("sync", "pull", RUN)["branch"]["result"] == "forwarded"
    assert b.git("rev-parse", "feat/7") == new
    b.git("checkout", "-q", "feat/7")
    newer = a.commit("three.txt")
    a.must("sync", "push", RUN)
    told = b.must("sync", "pull", RUN)["branch"]
    assert told["result"] == "behind"
    assert b.git("status", "--porcelain") == ""
    assert b.git("rev-parse", "feat/7") == new
    b.git(*re.search(r"git (merge --ff-only [^`]+)", told["message"])[1].split())  # type: ignore[index]
    assert b.git("rev-parse", "feat/7") == newer


def test_a_branch_that_went_on_elsewhere_refuses_the_push(a: Clone, b: Clone, bare: Path) -> None:
    """A branch that diverged keeps the run here too: neither ref moves."""
    b.git("checkout", "-q", "feat/7")
    b.commit("b.txt")
    b.git("push", "-q", "origin", "feat/7")
    a.commit("a.txt")
    work(a, "Mine")
    refs = remote_refs(bare)
    refused = a.faber("sync", "push", RUN)
    assert (refused.status, refused.error["code"], refused.error["reason"]) == (4, "branch_not_pushable", "diverged")
    assert remote_refs(bare) == refs


def test_a_branch_that_is_only_behind_does_not_matter(a: Clone, b: Clone) -> None:
    """Where the remote's branch has all that this one has, the run is pushed without it."""
    b.git("checkout", "-q", "feat/7")
    newer = b.commit("b.txt")
    b.git("push", "-q", "origin", "feat/7")
    work(a, "Mine")
    assert a.must("sync", "push", RUN)["result"] == "pushed"
    assert a.git("ls-remote", "origin", "refs/heads/feat/7").split()[0] == newer


@pytest.mark.parametrize(
    ("branch", "reason"),
    [
        ("not-there", "missing"),
        ("fresh", "no_commits"),
        ("--output=hacked", "name"),
        ("a\nb", "name"),
        ("x..y", "name"),
    ],
)
def test_a_branch_that_cannot_go_along(a: Clone, bare: Path, branch: str, reason: str) -> None:
    """A branch that is missing, has no commits or no possible name refuses the push, which names the reason."""
    if branch == "fresh":
        a.git("checkout", "-q", "--orphan", branch)
    a.must("event", "emit", RUN, "--type", "branch_create", "--metadata", json.dumps({"branch": branch}))
    refs = remote_refs(bare)
    refused = a.faber("sync", "push", RUN)
    assert (refused.status, refused.error["code"], refused.error["reason"]) == (4, "branch_not_pushable", reason)
    assert remote_refs(bare) == refs
    assert not (a.path / "hacked").exists()


def test_a_branch_the_remote_protects(a: Clone, bare: Path) -> None:
    """A remote that refuses the branch refuses both, and the error is about the branch."""
    (bare / "hooks" / "update").write_text('#!/bin/sh\ncase "$1" in refs/heads/*) exit 1;; esac\n')
    (bare / "hooks" / "update").chmod(0o755)
    a.commit("two.txt")
    work(a, "Two")
    refs = remote_refs(bare)
    refused = a.faber("sync", "push", RUN)
    assert (refused.error["code"], refused.error["reason"]) == ("branch_not_pushable", "rejected")
    assert remote_refs(bare) == refs


@pytest.mark.parametrize("over", [pytest.param(False, marks=pytest.mark.full), True], ids=["open", "completed"])
def test_a_refused_branch_does_not_hold_back_the_run(
    a: Clone, bare: Path, clone: MakeClone, tmp_path: Path, over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --kept-in, a run arrives without the branch that the remote refuses: waiting for a person, who is asked once
    in the remote's words, and who lands the commits from the exported file. Answers arrive meanwhile."""
    refuse = f'#!/bin/sh\ncase "$1" in refs/heads/*) echo "No secrets: {TOKEN}" >&2; exit 1;; esac\n'
    (bare / "hooks" / "update").write_text(refuse)
    (bare / "hooks" / "update").chmod(0o755)
    new, file = a.commit("two.txt"), str(tmp_path / "run.bundle")
    if over:
        finish(a)
    with monkeypatch.context() as patch:
        patch.setenv("CLAUDECODE", "1")
        work(a, "Two") if not over else None
        a.must("sync", "export", RUN, file)
    for _ in range(2):
        told = a.faber("sync", "push", RUN, "--merge", "--kept-in", "the artifact faber-work")
        assert (told.status, told.json["branch"], told.json["refused"]["reason"]) == (3, None, "rejected")
    c = clone("c")
    c.must("sync", "pull", RUN)
    (asked,) = c.must("feedback", "show", RUN)["open"]
    for words in ("refuses feat/7", "No secrets", new[:12], "the artifact faber-work", "faber sync import"):
        assert words in asked["prompt"]
    assert TOKEN not in json.dumps([asked, told.json])
    assert c.must("run", "show", RUN)["state"]["status"] == "awaiting_feedback"
    assert c.git("rev-parse", "feat/7") != new
    c.git("update-ref", "-d", "refs/heads/feat/7")  # a branch that the remote never had
    assert [each["code"] for each in c.must("sync", "push", RUN)["notices"]] == ["branch_gone"]
    assert c.must("sync", "import", RUN, file)["branch"]["result"] == "created"
    (bare / "hooks" / "update").unlink()
    assert c.must("sync", "push", RUN)["refused"] is None
    assert c.git("ls-remote", "origin", "refs/heads/feat/7").split()[0] == new
    c.must("feedback", "respond", RUN, "continue")
    assert c.must("run", "show", RUN)["state"]["status"] == "in_progress"
    if over:
        assert c.must("run", "complete", RUN)["status"] == "completed"
    c.must("doctor", RUN)


def test_a_person_is_told_how_to_land_commits_that_diverged(
    a: Clone, b: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the request names brings the commits together, from the exported file and the remote."""
    file = str(tmp_path / "run.bundle")
    a.commit("two.txt")
    with monkeypatch.context() as patch:
        patch.setenv("CLAUDECODE", "1")
        work(a, "Two")
        a.must("sync", "export", RUN, file)
    b.must("sync", "pull", RUN)
    b.git("switch", "-q", "feat/7")
    b.commit("three.txt")
    b.git("push", "-q", "origin", "feat/7")
    assert a.faber("sync", "push", RUN, "--kept-in", "a file").json["refused"]["reason"] == "diverged"
    b.must("sync", "pull", RUN)
    (asked,) = b.must("feedback", "show", RUN)["open"]
    assert "`git fetch FILE BRANCH`, merge FETCH_HEAD into the branch" in asked["prompt"]
    b.git("fetch", "-q", file, "feat/7")
    b.git("merge", "-q", "--no-edit", "FETCH_HEAD")
    assert b.must("sync", "push", RUN)["branch"] == "feat/7"


def finish(a: Clone) -> None:
    """Skip what is left of the run, and complete it."""
    a.must("step", "complete", RUN, "frame:fetch-work")
    for phase in ("frame", "architect", "build", "evaluate", "release"):
        a.must("phase", "skip", RUN, phase, "--message", "Not here")
    a.must("run", "complete", RUN)


def test_a_run_that_is_over_goes_without_its_branch(a: Clone) -> None:
    """The branch of a cancelled run may be gone."""
    a.must("run", "cancel", RUN, "--reason", "Not needed")
    a.git("checkout", "-q", "main")
    a.git("branch", "-q", "-D", "feat/7")
    pushed = a.must("sync", "push", RUN)
    assert pushed["branch"] is None
    assert [notice["code"] for notice in pushed["notices"]] == ["branch_gone"]


def test_a_closed_pull_request_may_have_lost_its_branch(a: Clone) -> None:
    """A run whose pull request was closed is pushed without the branch that is gone, but not where it was renamed."""
    closed: Decision = [pull_request_closed("https://github.com/acme/shop/pull/9", 9)]
    commit(Layout(str(a.path)), RUN, lambda state, plan: closed, Writer(actor="faber"))
    a.git("branch", "-q", "-m", "feat/7", "other")
    assert a.faber("sync", "push", RUN).error["reason"] == "missing"
    a.git("checkout", "-q", "main")
    a.git("branch", "-q", "-D", "other")
    pushed = a.must("sync", "push", RUN)
    assert (pushed["branch"], [notice["code"] for notice in pushed["notices"]]) == (None, ["branch_gone"])


def test_what_is_not_committed_is_named(a: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    """A push warns of uncommitted files where the run's branch is checked out, as these stay on this machine. It does
    not fail where git takes too long to say which."""
    assert a.must("sync", "push", RUN)["notices"] == []
    (a.path / "one.txt").write_text("changed")  # of the same size: git reads it
    (a.path / "new\x1b.txt").write_text("new\n")
    [notice] = a.must("sync", "push", RUN)["notices"]
    assert notice["code"] == "not_committed"
    assert re.search(r"^2 files in .* not committed .*: one\.txt, new.*\.txt\.$", notice["message"])
    assert "\x1b" not in notice["message"]
    with monkeypatch.context() as patch:
        patch.setattr(branches, "SECONDS", 0.2)
        a.git("config", "filter.slow.clean", "sleep 9; cat")
        a.git("config", "core.attributesFile", str(a.path / ".git" / "slow"))
        (a.path / ".git" / "slow").write_text("one.txt filter=slow\n")
        assert a.must("sync", "push", RUN)["notices"] == []
    a.git("config", "--unset", "filter.slow.clean")
    a.git("stash", "push", "-q", "--include-untracked")
    assert a.must("sync", "push", RUN)["notices"] == []


def test_a_shell_name_is_only_a_name(a: Clone, clone: MakeClone) -> None:
    """A branch that git accepts and a shell would run is pushed and pulled as its name."""
    name = "a;touch${IFS}hacked;$(touch${IFS}hacked)"
    a.git("checkout", "-q", "-b", name)
    a.must("event", "emit", RUN, "--type", "branch_create", "--metadata", json.dumps({"branch": name}))
    a.must("sync", "push", RUN)
    c = clone("c")
    assert c.must("sync", "pull", RUN)["branch"] == {"branch": name, "result": "created", "message": None}
    assert not list(a.path.parent.rglob("hacked"))


# --- credentials ------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["event", "plan", "metadata"])
def test_a_credential_is_not_pushed(a: Clone, bare: Path, where: str) -> None:
    """A file that holds a token refuses the push, naming file and place and never the token."""
    name = {"event": "events/000004-checkpoint.json", "plan": "plan.json", "metadata": "metadata.json"}[where]
    if where == "event":
        a.must("event", "emit", RUN, "--type", "checkpoint", "--message", "MARK")
        path = next(file for file in (a.run_dir / "events").iterdir() if b"MARK" in file.read_bytes())
        name = f"events/{path.name}"
    else:
        a.must("run", "init", "--run-id", "other", "--target", "MARK")
        path = a.run_dir.parents[2] / "other" / name
        document = json.loads(path.read_text())
        document["description" if where == "plan" else "target"] = "MARK"
        path.write_text(json.dumps(document))
    if where == "event":
        rewrite_event(path, "MARK", f"curl -u {TOKEN}")
    else:
        path.write_text(path.read_text().replace("MARK", f"curl -u {TOKEN}"))
    refs = remote_refs(bare)
    refused = a.faber("sync", "push", RUN if where == "event" else "other")
    assert (refused.status, refused.error["code"], refused.error["file"]) == (4, "secret_in_run", name)
    assert refused.error["place"] in ("message", "description", "target")
    assert TOKEN not in json.dumps(refused.json) + refused.words
    assert remote_refs(bare) == refs
    assert not _holds(bare, TOKEN)


def test_a_damaged_event_is_not_pushed(a: Clone, bare: Path) -> None:
    """An event that does not match its checksum, or is missing, stays here: the remote gets no part of it."""
    work(a, "MARK")
    path = next(file for file in (a.run_dir / "events").iterdir() if b"MARK" in file.read_bytes())
    work(a, "More")
    whole = path.read_bytes()
    refs = remote_refs(bare)
    path.write_bytes(whole.replace(b"MARK", b"MARS"))
    assert a.faber("sync", "push", RUN).error["code"] == "event_unreadable"
    path.unlink()
    assert a.faber("sync", "push", RUN).error["code"] == "event_unreadable"
    assert remote_refs(bare) == refs
    path.write_bytes(whole)
    assert a.must("sync", "push", RUN)["events"] == 2


def test_a_run_that_lost_events_travels(a: Clone, clone: MakeClone) -> None:
    """Once a person accepted the loss, the run is pushed and pulled with its hole, and is the same elsewhere."""
    work(a, "MARK")
    path = next(file for file in (a.run_dir / "events").iterdir() if b"MARK" in file.read_bytes())
    work(a, "More")
    path.unlink()
    a.must("repair", RUN, "--accept-loss")
    a.must("sync", "push", RUN)
    c = clone("c")
    c.must("sync", "pull", RUN)
    assert c.events() == a.events()
    assert c.must("doctor", RUN)["healthy"]
    assert (c.run_dir / "state.json").read_bytes() == (a.run_dir / "state.json").read_bytes()


def test_an_accepted_loss_replaces_no_events_that_the_remote_has(a: Clone, bare: Path) -> None:
    """What was lost here at the end of the log, and is still at the remote, is not merged with its loss."""
    ask(a)
    a.must("sync", "push", RUN)
    whole, refs = a.events(), remote_refs(bare)
    (a.run_dir / "events" / whole[-1][0]).unlink()
    a.must("repair", RUN, "--accept-loss")
    for command in ("push", "pull"):
        refused = a.faber("sync", command, RUN, "--merge").error
        assert (refused["code"], refused["mergeable"]) == ("diverged", False)
        assert "losses accepted" in refused["message"]
    assert remote_refs(bare) == refs
    a.must("sync", "pull", RUN, "--park-mine")
    assert a.events() == whole


def test_the_value_of_a_variable_is_not_pushed(a: Clone, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that a variable named like a credential has is one, whatever it looks like; a path is none."""
    monkeypatch.setenv("KEY_FILE_TOKEN", str(a.path))
    work(a, f"Call it with plain-words-only from {a.path}")
    monkeypatch.setenv("SHOP_API_KEY", "plain-words-only")
    refused = a.faber("sync", "push", RUN)
    assert (refused.error["code"], refused.error["place"]) == ("secret_in_run", "message")
    assert "$SHOP_API_KEY" in refused.error["message"]
    assert "plain-words-only" not in json.dumps(refused.json) + refused.words
    monkeypatch.delenv("SHOP_API_KEY")
    assert a.must("sync", "push", RUN)["events"] == 1


def _holds(bare: Path, text: str) -> bool:
    """True if any object of the repository holds `text`."""
    listing = subprocess.run(
        ["git", "-C", bare, "cat-file", "--batch-all-objects", "--batch"], check=True, capture_output=True
    )
    return text.encode() in listing.stdout


# --- checkouts as CI makes them ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [("--depth=1",), ("--filter=blob:none",), ("--filter=tree:0", "--no-checkout"), ("--single-branch", "--depth=1")],
    ids=" ".join,
)
def test_a_cut_clone_pulls_and_pushes(a: Clone, bare: Path, clone: MakeClone, options: tuple[str, ...]) -> None:
    """A shallow, partial or single-branch clone with a detached HEAD has the whole run, answers, and pushes it back."""
    subprocess.run(["git", "-C", bare, "config", "uploadpack.allowFilter", "true"], check=True)
    ask(a)
    a.must("sync", "push", RUN)
    c = clone("c", *options)
    c.git("checkout", "-q", "--detach", "origin/main")
    assert c.must("sync", "pull", "--all")["runs"][0]["result"] == "created"
    assert c.git("rev-parse", "feat/7") == a.git("rev-parse", "feat/7")
    assert c.events() == a.events()
    missing = subprocess.run(
        ["git", "rev-list", "--objects", "--missing=print", f"refs/faber/synced/origin/runs/{RUN}"],
        cwd=c.path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert "?" not in missing.stdout
    c.must("feedback", "respond", RUN, "approve")
    work(c, "In CI")
    c.must("sync", "push", RUN)
    assert a.must("sync", "pull", RUN)["events"] == 2


def test_lost_objects_are_said(a: Clone, bare: Path) -> None:
    """A remote that lacks an object of the run ends in an error that says so, and the run stays."""
    work(a, "More")
    a.must("sync", "push", RUN)
    shutil.rmtree(a.path / ".fractary")
    tree = a.git("rev-parse", f"refs/faber/synced/origin/runs/{RUN}:events")
    (a.path / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    refused = a.faber("sync", "pull", RUN)
    assert (refused.status, refused.error["code"]) == (1, "objects_missing")
    assert not a.run_dir.exists()


def test_a_hook_around_faber_does_not_redirect_it(a: Clone, b: Clone) -> None:
    """Called from a git hook of another repository, a sync works on its own repository."""
    work(a, "From a hook")
    environment = {**os.environ, "GIT_DIR": str(b.path / ".git"), "GIT_INDEX_FILE": "/nowhere/index"}
    done = subprocess.run(
        [sys.executable, "-I", MAIN, "--root", a.path, "sync", "push", RUN],
        cwd=b.path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert json.loads(done.stdout)["events"] == 1, done.stdout
    assert a.git("ls-remote", "origin", REF).split()[0] == json.loads(done.stdout)["commit"]
