"""What a nebula requires of others before it may run."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from faber.errors import Exit, Severity
from faber.nebula.plan.nebula_files import load_nebula
from faber.nebula.plan.plan_errors import RequirementsUnmet
from faber.nebula.plan.requirements import requirement_problems, unmet
from support.nebulas import Author, Project, nebula_files
from support.repositories import write

DONE = 'version = 1\n[phases.a]\nstatus = "done"\n[phases.b]\nstatus = "decomposed"\n'
REMEDIED = DONE + '[phases.c]\nstatus = "failed"\nremediation = "heal-c"\n[phases.heal-c]\nstatus = "done"\n'
BEADS = '{"id":"x-1","status":"closed"}\n{"id":"x-10","status":"open"}\nno JSON x-1\n'


def required(root: Path, manifest: str, files: Mapping[str, str] = {}) -> list[tuple[str, str, bool]]:
    """The unmet requirements of the nebula `plan`: key, why, and whether nothing has the name."""
    write(root, {"plan/nebula.toml": f'[nebula]\nname = "n"\n[dependencies]\n{manifest}\n', **files})
    return [(each.key, each.why, each.missing) for each in unmet(load_nebula(str(root / "plan")).nebula, str(root))]


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (DONE, None),
        (REMEDIED, None),
        (DONE.replace("phases", "tasks"), None),
        (DONE.replace("decomposed", "in_progress"), "it is not finished: b is in_progress"),
        (REMEDIED.replace('heal-c]\nstatus = "done"', 'heal-c]\nstatus = "failed"'), "it is not finished: c is failed"),
        ("version = 1\n", "it has not been run"),
        (None, "it has not been run"),
        ("version", "cannot be read"),
    ],
)
def test_a_required_nebula_is_finished(tmp_path: Path, state: str | None, why: str | None) -> None:
    """A nebula next to this one is finished if its state file, whoever wrote it, lists phases and all are finished."""
    files = {"other/nebula.toml": "", **({"other/nebula.state.toml": state} if state else {})}
    found = required(tmp_path, 'requires_nebulae = ["other"]', files)
    assert [(key, missing) for key, _, missing in found] == ([("requires_nebulae", False)] if why else [])
    assert not why or why in found[0][1]


@pytest.mark.parametrize("name", ["nowhere", "", ".", "..", "../other", "plan", "other/"])
def test_a_required_nebula_that_is_missing(tmp_path: Path, name: str) -> None:
    """Only the name of another directory next to this one is a requirement that can be met."""
    files = {"other/nebula.state.toml": DONE}
    assert [missing for _, _, missing in required(tmp_path, f'requires_nebulae = ["{name}"]', files)] == [True]


def test_a_required_work_item_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A work item is closed if its program says so, or else the file that the program exports; without both, its
    status is unknown."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    manifest = 'requires_beads = ["x-1", "x-10", "x-2", "-x"]'
    unknown = required(tmp_path, manifest)
    assert len(unknown) == 4
    assert all("is unknown" in why and not missing for _, why, missing in unknown)
    open_and_gone = [
        ("requires_beads", "it is open, not closed", False),
        ("requires_beads", "there is no such work item", True),
        ("requires_beads", "there is no such work item", True),
    ]
    assert required(tmp_path, manifest, {".beads/issues.jsonl": BEADS}) == open_and_gone
    program = '#!/bin/sh\n[ "$PWD" = "${0%/bin/bd}" ] && [ "$1 $2 $3" = "show x-10 --json" ] || exit 1\n'
    write(tmp_path, {"bin/bd": program + """echo '[{"id": "x-10", "status": "closed"}]'\n"""})
    os.chmod(tmp_path / "bin/bd", 0o755)
    assert required(tmp_path, manifest) == open_and_gone[1:]


def test_unmet_requirements_are_problems(tmp_path: Path) -> None:
    """What is missing is an error, what is not finished a warning, on the line of the key."""
    required(tmp_path, 'requires_beads = []\nrequires_nebulae = ["gone", "other"]', {"other/nebula.toml": ""})
    found = list(requirement_problems(load_nebula(str(tmp_path / "plan")), str(tmp_path)))
    assert [(each.category, each.severity, each.line) for each in found] == [
        ("unmet_requirement", Severity.ERROR, 5),
        ("unmet_requirement", Severity.WARNING, 5),
    ]


@pytest.mark.usefixtures("git_user")
def test_apply_refuses_until_it_is_met(tmp_path: Path) -> None:
    """With an unmet requirement apply starts nothing and creates no run; once it is met, it works."""
    files = nebula_files({"a": []}, '[dependencies]\nrequires_nebulae = ["other"]')
    project, author = Project(tmp_path / "p", {**files, "other/nebula.toml": ""}), Author()
    with pytest.raises(RequirementsUnmet) as refused:
        project.apply(author)
    assert refused.value.exit_code == Exit.REFUSED
    assert refused.value.fields["requirements"][0]["name"] == "other"
    assert (author.asked, project.layout.run_ids(), project.left()) == ([], [], [])
    write(project.root, {"other/nebula.state.toml": DONE})
    assert project.apply(author).status == "done"
