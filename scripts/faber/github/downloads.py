"""Texts that GitHub keeps outside its API, such as logs: it redirects to another host, which gets no credential."""

from urllib.parse import urlsplit

from faber.github.api_calls import ApiRequest, Calls
from faber.github.api_responses import NoResponse, after_response
from faber.sources.work_items import WorkItemError, WorkItemInvalid, WorkItemNetworkError

_LOOPBACK = ("127.0.0.1", "localhost")


def end_of(calls: Calls, request: ApiRequest, most: int, deadline: float) -> str:
    """The last `most` bytes of the text that the API answers, or redirects to; raises a `WorkItemError`."""
    response = calls.once(request, deadline)
    if response.redirected:
        from faber.github.rest_transport import fetch_end

        url = _allowed(calls.transport.root, response.headers.get("location", ""))
        left = min(calls.seconds, deadline - calls.timing.clock())
        try:
            response = fetch_end(url, most, max(left, 0.001))
        except NoResponse as failure:
            raise WorkItemNetworkError(f"The text could not be fetched: {failure.reason}.") from None
    problem = after_response(response, repeatable=False, attempt=0, now=calls.timing.now(), random=0)
    if problem is not None:
        raise problem if isinstance(problem, WorkItemError) else problem.error
    return response.body[-most:].decode("utf-8", "replace")


def _allowed(root: str, location: str) -> str:
    """The address that GitHub redirects to: encrypted, or on this machine where the API is."""
    try:
        place = urlsplit(location)
        host, user = place.hostname, place.username
    except ValueError:
        raise WorkItemInvalid("GitHub redirects to something else than an address.") from None
    local = place.scheme == "http" and host in _LOOPBACK and urlsplit(root).hostname in _LOOPBACK
    if not host or user is not None or not location.isascii() or not (place.scheme == "https" or local):
        raise WorkItemInvalid("GitHub redirects to an address that is not encrypted.")
    return location
