"""A disk that fills while a nebula is worked on."""

from pathlib import Path

from faults.mounts import in_namespace

SCENARIO = """
import json, os, subprocess, sys, threading
from pathlib import Path
sys.path[:0] = sys.argv[1:3]
from faber.errors import StoreUnwritable
from faber.store.load import load
from support.nebulas import Author, Project, nebula_files

mounted, home = Path(sys.argv[3]), Path(sys.argv[3]) / "p"
(mounted.parent / "gitconfig").write_text("[user]\\n\\tname = A\\n\\temail = a@example.com\\n")
os.environ.update(GIT_CONFIG_GLOBAL=str(mounted.parent / "gitconfig"), GIT_CONFIG_NOSYSTEM="1")

def mount(*options):
    subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(options), "faber-test", str(mounted)], check=True)

mount("size=64m")
project = Project(home, nebula_files({"a": [], "b": ["a"], "c": []}))
author, ballast, told = Author(), mounted / "ballast", {"at": []}

def fill(role, phase):
    if (role, phase) == ("reviewer", "a"):
        with ballast.open("wb") as file:
            try:
                while True:
                    file.write(b"x" * 4096)
                    file.flush()
            except OSError:
                pass

author.before = fill
try:
    told["first"] = project.apply(author, max_workers=1).status
except StoreUnwritable as error:
    told["first"] = [error.code, int(error.exit_code)]
told["said"] = project.said[-3:]
ballast.unlink(missing_ok=True)
state = load(project.layout, project.layout.run_ids()[0]).state
told["statuses"] = sorted({phase["status"] for phase in state["nebula"]["phases"].values()})
again = Author()
project.cancel = threading.Event()
told["second"] = project.apply(again, resume=True).status
told["asked"] = again.asked
told["left"] = project.left()
print(json.dumps(told))
"""


def test_a_full_disk_ends_the_run_and_costs_nothing_else(tmp_path: Path) -> None:
    """No event can be written: exit status 1, no phase fails for it; with space again a resume does what was left."""
    (tmp_path / "mounted").mkdir()
    told = in_namespace(SCENARIO, str(tmp_path / "mounted"))
    assert told["first"] == ["store_unwritable", 1]
    assert any("--resume` continues it" in line for line in told["said"])
    assert not {"failed", "skipped"} & set(told["statuses"])
    assert told["second"] == "done"
    assert ["coder", "a"] not in told["asked"]
    assert told["left"] == ["nebula.state.toml"]
