"""What an event file of GitHub holds, part by part: what is not as GitHub describes it is an `InvalidInput`. Pure."""

import re
from collections.abc import Mapping

from faber.errors import InvalidInput
from faber.store import strict_json

MAX_PAYLOAD = 4 * 1024 * 1024
_URL = re.compile(r"https?://([A-Za-z0-9.-]+(?::[0-9]{1,5})?)/[\x21-\x7e]{1,400}", re.ASCII)

Fields = Mapping[str, object]


def load_event(data: bytes) -> Fields:
    """The object in an event file; raises `InvalidInput` if it is too large, not JSON, or nested too deeply."""
    if len(data) > MAX_PAYLOAD:
        raise InvalidInput(f"The event file has more than {MAX_PAYLOAD} bytes.", limit=MAX_PAYLOAD)
    try:
        event = strict_json.loads(data)
    except strict_json.InvalidJSON as error:
        raise InvalidInput(f"The event file is not JSON: {error}.") from None
    if not isinstance(event, dict):
        raise InvalidInput("The event file is not a JSON object.")
    return event


def object_in(value: Fields, key: str) -> Fields:
    """An object that has to be there."""
    found = value.get(key)
    if not isinstance(found, dict):
        raise InvalidInput(f"The event file has no {key}.")
    return found


def text_in(value: Fields, key: str) -> str:
    """A text that has to be there, and not empty."""
    found = value.get(key)
    if not isinstance(found, str) or not found:
        raise InvalidInput(f"The event file has no {key}.")
    return found


def number_in(value: Fields, key: str) -> int:
    """A number that has to be there, from 1 on."""
    found = value.get(key)
    if isinstance(found, bool) or not isinstance(found, int) or not 0 < found < 2**63:
        raise InvalidInput(f"The event file has no {key}.")
    return found


def host_of(url: str) -> str:
    """The host of a web address of GitHub, in lower case."""
    place = _URL.fullmatch(url)
    if place is None:
        raise InvalidInput("The html_url is not a web address.")
    return place[1].partition(":")[0].lower()
