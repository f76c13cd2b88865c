"""Requests to GitHub's REST API with a token, over the standard library's HTTP client."""

import http.client
import socket
import ssl
import threading
import urllib.request
from collections.abc import Callable
from typing import Any

from faber import __version__
from faber.github.api_calls import GRAPHQL, HEADERS, ApiRequest
from faber.github.api_responses import MAX_RESPONSE, NoResponse, Response

_CHUNK = 64 * 1024


class RestTransport:
    """Opens one connection per request and never follows a redirect.

    The environment's proxies are used for https only: an http proxy would see the token.
    """

    def __init__(self, root: str, token: str) -> None:
        """`root` is the API's URL; `token` is sent to it and nowhere else."""
        self.root = root
        self.secrets: tuple[str, ...] = (token,)
        self._headers = {
            **HEADERS,
            "Authorization": f"Bearer {token}",
            "User-Agent": f"faber/{__version__}",
        }

    def send(self, request: ApiRequest, seconds: float) -> Response:
        """The answer to one request; raises `NoResponse`, also if it takes longer than `seconds` in all."""
        headers = self._headers | ({"Content-Type": "application/json"} if request.body is not None else {})
        # An Enterprise Server has GraphQL beside its REST API (/api/v3), not below it.
        root = self.root.removesuffix("/v3") if request.path == GRAPHQL else self.root
        asked = urllib.request.Request(
            f"{root}/{request.path}", data=request.body, headers=headers, method=request.method
        )
        return _exchanged(_Exchange(asked, seconds, _body))


def fetch_end(url: str, most: int, seconds: float) -> Response:
    """What an address outside the API answers, without any credential: the last `most` bytes. Raises `NoResponse`."""
    asked = urllib.request.Request(url, headers={"User-Agent": f"faber/{__version__}"})
    return _exchanged(_Exchange(asked, seconds, lambda answer: _end(answer, most)))


def _exchanged(exchange: "_Exchange") -> Response:
    # In a thread, because a socket's timeout ends neither a slow name lookup nor a response that trickles in.
    thread = threading.Thread(target=exchange.run, daemon=True)
    thread.start()
    thread.join(exchange.seconds)
    if thread.is_alive():
        exchange.abandon()
        raise NoResponse(f"no answer within {exchange.seconds:.3g} s", sent=exchange.connected)
    if exchange.response is None:
        raise NoResponse(exchange.problem, sent=exchange.connected, final=exchange.final)
    return exchange.response


class _Exchange:
    """One request and its answer: `response`, or `problem`."""

    def __init__(
        self, asked: urllib.request.Request, seconds: float, read: Callable[[http.client.HTTPResponse], bytes]
    ) -> None:
        self.asked, self.seconds, self.read = asked, seconds, read
        self.response: Response | None = None
        self.problem = ""
        self.connected = False
        self.final = False
        self.sockets: list[socket.socket] = []

    def run(self) -> None:
        try:
            # Only these handlers: none follows redirects, reads files or asks for passwords.
            opener = urllib.request.OpenerDirector()
            proxies = urllib.request.getproxies() if self.asked.type == "https" else {}
            opener.add_handler(urllib.request.ProxyHandler(proxies))
            opener.add_handler(_Handler(self))
            with opener.open(self.asked, timeout=self.seconds) as answer:
                self.response = Response(
                    answer.status, {name.lower(): value for name, value in answer.headers.items()}, self.read(answer)
                )
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            self.final = isinstance(reason, (_TooLarge, ssl.SSLCertVerificationError))
            self.problem = str(reason) or type(error).__name__

    def abandon(self) -> None:
        for one in self.sockets:
            try:
                socket.socket.shutdown(one, socket.SHUT_RDWR)
            except OSError:
                pass

    def connecting(self, connection: http.client.HTTPConnection) -> http.client.HTTPConnection:
        """`connection`, which notes when it is established."""
        connect = connection.connect

        def connect_and_note() -> None:
            connect()
            self.connected = True
            self.sockets.append(connection.sock)

        connection.connect = connect_and_note  # type: ignore[method-assign]
        return connection


class _TooLarge(ValueError):
    """The response is larger than a full page of comments can be."""


class _Handler(urllib.request.AbstractHTTPHandler):
    def __init__(self, exchange: _Exchange) -> None:
        super().__init__()
        self.exchange = exchange

    def http_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(self._plain, req)  # type: ignore[arg-type]

    def https_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(self._encrypted, req)  # type: ignore[arg-type]

    def _plain(self, host: str, timeout: float) -> http.client.HTTPConnection:
        return self.exchange.connecting(http.client.HTTPConnection(host, timeout=timeout))

    def _encrypted(self, host: str, timeout: float) -> http.client.HTTPConnection:
        context = ssl.create_default_context()
        return self.exchange.connecting(http.client.HTTPSConnection(host, timeout=timeout, context=context))

    http_request = https_request = urllib.request.AbstractHTTPHandler.do_request_


def _body(answer: http.client.HTTPResponse) -> bytes:
    data = bytearray()
    while chunk := answer.read(_CHUNK):
        data += chunk
        if len(data) > MAX_RESPONSE:
            raise _TooLarge(f"the answer is larger than {MAX_RESPONSE // 1_000_000} MB")
    if answer.length:  # read(n) does not report a broken connection
        raise http.client.IncompleteRead(b"", answer.length)
    return bytes(data)


def _end(answer: http.client.HTTPResponse, most: int) -> bytes:
    """The last `most` bytes of an answer of any length, in the time allowed."""
    data = b""
    while chunk := answer.read(_CHUNK):
        data = (data + chunk)[-most:]
    return data
