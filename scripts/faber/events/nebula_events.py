"""The events of nebulas and their phases, one function each. Texts are bounded by the recorder."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from faber.events import event_types
from faber.events.drafts import Draft, draft
from faber.events.token_counts import added_tokens


class TurnFacts(NamedTuple):
    """The facts of one turn of an agent. `turns` are the model's own, `denials` the tool calls that were denied, some
    named in `denied`; `usage` has its tokens, of which `token_counts.TOKENS` are recorded; `causes` says why requests
    were repeated. `unpriced`: the `client` reported no dollars, which are then unknown and counted as 0."""

    cost_usd: float
    outcome: str
    turns: int | None = None
    denials: int | None = None
    session: str | None = None
    error: str | None = None
    denied: Sequence[str] = ()
    usage: Mapping[str, int] = {}
    causes: Mapping[str, int] = {}
    client: str | None = None
    unpriced: bool = False


def nebula_start(
    nebula: str,
    phases: Mapping[str, str],
    *,
    directory: str,
    base_branch: str | None = None,
    base_commit: str | None = None,
    branch: str | None = None,
) -> Draft:
    """A run starts work on a nebula, or on its edited files: `phases` are the digests of their files by id.

    `branch` is the integration branch, which began at `base_commit` of `base_branch` (None: HEAD was detached).
    """
    metadata = {
        "nebula": nebula,
        "directory": directory,
        "phases": phases,
        "base_branch": base_branch,
        "base_commit": base_commit,
        "branch": branch,
    }
    return draft(event_types.NEBULA_START, metadata=metadata)


def turns_refused(
    message: str,
    *,
    reason: str,
    waiting_until: str | None,
    client: str | None = None,
    continues_in: str | None = None,
) -> Draft:
    """The service of a client refuses turns; `message` is what it said. `waiting_until` None: nobody waits, a person
    has to do something. The work continues in the client `continues_in`, if there is one."""
    metadata = {"reason": reason, "waiting_until": waiting_until, "client": client, "continues_in": continues_in}
    return draft(event_types.TURNS_REFUSED, message=message, metadata=metadata)


def turns_resumed(client: str | None = None) -> Draft:
    """A turn came through again, in `client`."""
    return draft(event_types.TURNS_RESUMED, metadata={"client": client})


def nebula_land(commit: str | None, *, branch: str | None, how: str) -> Draft:
    """The integration branch was merged into `branch`, whose head is `commit` now."""
    return draft(event_types.NEBULA_LAND, metadata={"commit": commit, "branch": branch, "how": how})


def nebula_phase_start(phase: str, *, branch: str, base: str, digest: str | None) -> Draft:
    """Work on a phase starts or resumes on its branch, which began at the commit `base`."""
    return draft(event_types.PHASE_START, phase, metadata={"branch": branch, "base": base, "digest": digest})


def nebula_phase_complete(phase: str, report: str, *, cycles: int | None = None) -> Draft:
    """A phase is done; `report` is its reviewer's."""
    return draft(event_types.PHASE_COMPLETE, phase, message=report, metadata={"cycles": cycles})


def nebula_phase_error(
    phase: str, message: str, *, code: str, spent_usd: object = None, limit_usd: object = None
) -> Draft:
    """A phase failed with the error `code`; the amounts are those of an exhausted budget."""
    metadata = {"code": code, "spent_usd": spent_usd, "limit_usd": limit_usd}
    return draft(event_types.PHASE_ERROR, phase, error=message, metadata=metadata)


def phase_reset(phase: str, message: str) -> Draft:
    """A failed or skipped phase is pending again."""
    return draft(event_types.PHASE_RESET, phase, message=message)


def phase_merge(phase: str, *, commit: str, attempts: int) -> Draft:
    """The work of a phase is in the integration branch, whose head is `commit` now."""
    return draft(event_types.PHASE_MERGE, phase, metadata={"commit": commit, "attempts": attempts})


def checkpoint_verdict(
    phase: str, message: str, *, verdict: str, resumes: bool, cycle: int | None = None, stage: str | None = None
) -> Draft:
    """Whether a phase resumes from its checkpoint, which is of `stage` in `cycle`."""
    metadata = {"verdict": verdict, "resumes": resumes, "cycle": cycle, "stage": stage}
    return draft(event_types.CHECKPOINT_VERDICT, phase, message=message, metadata=metadata)


def cycle_start(phase: str, cycle: int) -> Draft:
    """A cycle of a phase starts."""
    return draft(event_types.CYCLE_START, phase, metadata={"cycle": cycle})


def cycle_commit(phase: str, cycle: int, commit: str) -> Draft:
    """The coder's work of a cycle is committed; the head of the phase's branch is `commit` now."""
    return draft(event_types.CYCLE_COMMIT, phase, metadata={"cycle": cycle, "commit": commit})


def cycle_complete(phase: str, cycle: int, *, findings: int) -> Draft:
    """A cycle ends with this number of open findings."""
    return draft(event_types.CYCLE_COMPLETE, phase, metadata={"cycle": cycle, "findings": findings})


def agent_turn(phase: str, role: str, facts: TurnFacts, *, cycle: int | None = None) -> Draft:
    """A turn of an agent ended."""
    metadata = {
        "role": role,
        "cycle": cycle,
        "cost_usd": facts.cost_usd,
        "outcome": facts.outcome,
        "turns": facts.turns,
        "denials": facts.denials or None,
        "denied": [*facts.denied] or None,
        "agent_session": facts.session,
        "tokens": added_tokens({}, facts.usage) or None,
        "causes": dict(facts.causes) or None,
        "client": facts.client,
        "unpriced": facts.unpriced or None,
    }
    return draft(event_types.AGENT_TURN, phase, error=facts.error or None, metadata=metadata)


def filter_run(
    phase: str,
    filter: str,
    *,
    passed: bool,
    cycle: int | None = None,
    detail: str | None = None,
    on: Literal["merge"] | None = None,
) -> Draft:
    """A filter or a guard ran: in a cycle, during the setup of a worktree, or on a merge."""
    metadata = {"filter": filter, "cycle": cycle, "detail": detail, "on": on}
    return draft(event_types.FILTER_RUN, phase, status="passed" if passed else "failed", metadata=metadata)


def review(phase: str, *, approved: bool, message: str, cycle: int, findings: int, tree: str) -> Draft:
    """The reviewer judged the tree of a cycle, with this number of open findings."""
    status = "approved" if approved else "not_approved"
    metadata = {"cycle": cycle, "findings": findings, "tree": tree}
    return draft(event_types.REVIEW, phase, status=status, message=message, metadata=metadata)
