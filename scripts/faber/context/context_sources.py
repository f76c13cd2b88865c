"""The optional sources of a context: specification, work item and branch (context reconstitution 0.2 to 0.4)."""

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from faber.context.context_document import IssuePart, SpecificationPart
from faber.errors import FaberError, Notice, Severity
from faber.git.branch_questions import BranchPart
from faber.git.inspect import Inspected, begin_branch
from faber.sources.specification import load as load_specification
from faber.sources.work_items import WorkItemSource, load_issue
from faber.store.cache import memo
from faber.store.config import DEFAULTS, Config, load_config
from faber.store.files import read_json, write_atomic
from faber.store.layout import WORK_ITEM, Layout
from faber.store.load import Run
from faber.store.store_errors import InvalidConfiguration
from faber.store.strict_json import InvalidJSON, dumps

MAX_WORK_ITEM = 2 * 1024 * 1024

OpenSource = Callable[[], WorkItemSource | None]
Branch = Callable[[], Inspected]


class ContextOptions(NamedTuple):
    """How to reconstitute. `work_items` opens the source to fetch the work item from; None to use the saved copy.

    `answers` maps decision codes to the options that a person chose on the command line; `now` is the UTC time;
    `notices` are problems met before. `session` is the session that asks, None for a person; `loads` is true if it
    records that it has the context.
    """

    work_items: OpenSource | None
    answers: dict[str, str]
    now: str
    notices: tuple[Notice, ...] = ()
    session: str | None = None
    loads: bool = False


def settings(layout: Layout) -> tuple[Config, tuple[Notice, ...]]:
    """The project's settings; where they are invalid, the defaults and a warning."""
    try:
        return load_config(layout), ()
    except InvalidConfiguration as error:
        message = f"{error.message} The work item is not fetched, and nothing is recorded."
        return Config(DEFAULTS, None), (Notice(error.code, Severity.WARNING, message, error.recovery, layout.config),)


class ContextSources:
    """The sources of one run: each returns a value, or None, and adds its notices."""

    def __init__(self, run: Run, config: Config, options: ContextOptions, notices: list[Notice]) -> None:
        self.run, self.config, self.options, self.notices = run, config, options, notices

    def specification(self) -> SpecificationPart | None:
        """The run's specification, parsed and as a whole."""
        path = self.run.state["artifacts"].get("spec_path")
        if path is None:
            return None
        if not isinstance(path, str):
            self._warn("spec_path_invalid", "artifacts.spec_path is not text.")
            return None

        def kept(name: str, text: str, compute: Callable[[str], Any]) -> Any:
            return memo(self.run.layout, name, text, compute)

        spec, notices = load_specification(self.run.layout.root, path, memo=kept)
        self.notices += notices
        return cast(SpecificationPart | None, spec)

    def issue(self) -> IssuePart | None:
        """The work item, fetched or from the saved copy."""
        work_id = self.run.state["work_id"]
        if work_id is None:
            return None
        path = os.path.join(self.run.directory, WORK_ITEM)
        source = self.options.work_items() if self.options.work_items else None
        issue, fresh, notices = load_issue(source, work_id, cached=_cached(path), now=self.options.now)
        self.notices += notices
        if issue is None and self.options.work_items is None:
            self._warn("issue_not_fetched", f"The work item {work_id} was not fetched, and there is no copy of it.")
        if fresh is not None and not self.run.foreign:
            try:
                write_atomic(path, dumps(fresh, pretty=True), durable=False)
            except FaberError as error:
                self._warn("work_item_not_kept", f"The work item could not be saved for later: {error.message}")
        return cast(IssuePart | None, issue)

    def begin_branch(self, latest: Mapping[str, object] | None) -> Branch | None:
        """Start asking git about the run's branch; `latest` is the newest session summary."""
        name = self.run.state["artifacts"].get("branch_name")
        if name is None:
            return None
        if not isinstance(name, str):
            self._warn("branch_name_invalid", "artifacts.branch_name is not text.")
            return None
        since = latest.get("head_commit") if latest else None
        return begin_branch(
            self.run.layout.root,
            name,
            since=since if isinstance(since, str) else None,
            default_branch=self.config.at("context.default_branch"),
        )

    def branch(self, started: Branch | None) -> BranchPart | None:
        """What git answers."""
        if started is None:
            return None
        branch, notices = started()
        self.notices += notices
        if branch is not None:
            from shlex import quote

            nowhere = branch["exists"] and branch["worktree"] is None
            branch["switch_with"] = f"git switch {quote(branch['name'])}" if nowhere else None
        return branch

    def _warn(self, code: str, message: str) -> None:
        self.notices.append(Notice(code, Severity.WARNING, message, source=self.run.run_id))


def _cached(path: str) -> Mapping[str, object] | None:
    try:
        found = read_json(path, MAX_WORK_ITEM)
    except (OSError, FaberError, InvalidJSON):
        return None
    return found if isinstance(found, dict) else None
