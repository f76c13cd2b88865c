"""Why an event from GitHub changes nothing."""

from faber.sources.work_items import Commenting, WorkItemError

ELSEWHERE = "If the run is on another machine: push it there, run `faber sync pull --all` here, and try again."
# Keys that every answer has.
FIXED: dict[str, object] = {
    "run_id": None,
    "request_id": None,
    "action": None,
    "resume": False,
    "pull_request": False,
    "next": None,
    "comment_id": None,
}


class Refusal(Exception):
    """The event is refused: `result`, `reason` and further keys of the answer."""

    def __init__(self, result: str, reason: str, **known: object) -> None:
        super().__init__(reason)
        self.reason = reason
        self.outcome: dict[str, object] = {"result": result, "reason": reason, **known}


def not_certain(reason: str, error: WorkItemError) -> Refusal:
    """What GitHub does not confirm is not so."""
    return Refusal("denied", reason, error=error.as_dict())


def check_repository(source: Commenting, host: str, repository: str) -> None:
    """Raise unless the event is about the project's own repository."""
    try:
        ours = source.web()
    except WorkItemError as error:
        raise not_certain("permission_unknown", error) from None
    if f"https://{host}/{repository}".lower() != ours.lower():
        raise Refusal("denied", "repository")
