"""What answers of the API hold, part by part: whatever is not as GitHub describes it is a `WorkItemInvalid`. Pure."""

from collections.abc import Mapping

from faber.sources.work_items import WorkItemInvalid

Payload = Mapping[str, object]


def as_object(value: object) -> Payload:
    """An answer, or a part of one, that has to be an object."""
    if not isinstance(value, dict):
        raise WorkItemInvalid("GitHub's answer is not an object.")
    return value


def id_of(comment: Payload) -> int:
    """The number that GitHub gave to a comment, a reaction or a pull request."""
    found = comment.get("id")
    if isinstance(found, bool) or not isinstance(found, int) or found < 1:
        raise WorkItemInvalid("GitHub's answer lacks an id.")
    return found


def text_of(value: Payload, key: str) -> str:
    """A text that has to be there."""
    found = value.get(key)
    if not isinstance(found, str):
        raise WorkItemInvalid(f"GitHub's answer has no {key}.")
    return found


def text_or_none(value: Payload, key: str) -> str | None:
    """A text that may be null or missing."""
    return None if value.get(key) is None else text_of(value, key)


def list_of(value: Payload, key: str) -> list[object]:
    """A list, empty where there is none."""
    found = value.get(key)
    return found if isinstance(found, list) else []


def account_of(value: Payload) -> tuple[str, str]:
    """Login and type of the account, both '' if it was deleted."""
    user = value.get("user")
    return (text_of(user, "login"), text_or_none(user, "type") or "") if isinstance(user, dict) else ("", "")


def url_of(value: Payload) -> str | None:
    """The address of its page."""
    url = value.get("html_url")
    return url if isinstance(url, str) and url.startswith(("https://", "http://")) else None
