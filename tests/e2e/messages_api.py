"""A scripted model on loopback: it decides what the model says and records all that the model was sent.

It speaks every client's wire (`wires.py`); what was sent is recorded in the shape of the Messages API.

    with MessagesApi() as api:
        api.script.reply(tool("Bash", command="echo hi"), text("done"))
        …                               # a client runs against api.url
        assert "hi" in api.turns[-1].results[-1].text
        api.verify()                    # raises if the script ran out, or was not used up

Any number of clients may ask at once. Keys are never recorded.
"""

import json
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from e2e.opencode_wire import ChatWire, OpenCodeWire
from e2e.replies import Reply, error, summary, text
from e2e.request import Kind, Request
from e2e.responses_api import ResponsesWire
from e2e.wires import MessagesWire, Wire

_SECRET = {"x-api-key", "authorization", "cookie"}
_COUNT = "/v1/messages/count_tokens"
_WIRES: Mapping[str, Wire] = {
    "/v1/messages": MessagesWire(),
    _COUNT: MessagesWire(),
    "/v1/responses": ResponsesWire(),
    "/opencode/v1/messages": OpenCodeWire(),
    "/opencode/v1/chat/completions": ChatWire(),
}
_MODELS = "/v1/models"


class ScriptFailed(AssertionError):
    """The model was asked for something that the script does not say, or the other way round."""


class NotAsked(AssertionError):
    """A request that was waited for did not come in time."""


Answer = Reply | Callable[[Request], Reply]
Match = str | Callable[[Request], bool]


@dataclass
class _Lane:
    match: Callable[[Request], bool]
    queue: deque[Answer] = field(default_factory=deque)
    always: Answer | None = None


class Script:
    """Decides what is answered. Answers are replies, or functions of the request that return one.

    A request belongs to the first conversation of `when` that it matches, otherwise to the default one (`reply`).
    Each answers from its queue, in order, and then with its `always`; with neither, the script has run out.
    """

    def __init__(self) -> None:
        self.side: Answer = text("ok")
        self.is_side: Callable[[Request], bool] = lambda request: not request.tools
        self._default = _Lane(lambda _: True)
        self._lanes: list[_Lane] = []
        self._summaries: deque[Answer] = deque()
        self._lock = threading.Lock()

    def reply(self, *answers: Answer) -> None:
        """Add answers to the default conversation."""
        with self._lock:
            self._default.queue.extend(answers)

    def when(self, match: Match, *answers: Answer, always: Answer | None = None) -> None:
        """A conversation of its own, for requests that match.

        A string matches where it occurs in the system prompt or the first message, so a subagent is told from the
        agent that called it.
        """
        lane = _Lane((lambda request: match in request.opening) if isinstance(match, str) else match)
        lane.queue.extend(answers)
        lane.always = always
        with self._lock:
            self._lanes.append(lane)

    def always(self, answer: Answer) -> None:
        """What the default conversation answers once its queue is empty, as often as it is asked."""
        with self._lock:
            self._default.always = answer

    def compact(self, *answers: Answer) -> None:
        """What compaction requests are answered with, in order; unscripted, they get a summary that says nothing."""
        with self._lock:
            self._summaries.extend(answers)

    def take(self, request: Request) -> Answer | None:
        """The answer to `request`, taken off its queue; None if the script has run out."""
        if request.kind == "side":
            return self.side
        with self._lock:
            if request.kind == "compaction":
                return self._summaries.popleft() if self._summaries else summary("A summary.")
            lane = next((each for each in self._lanes if each.match(request)), self._default)
            return lane.queue.popleft() if lane.queue else lane.always

    def left(self) -> list[Answer]:
        """The answers that no request has asked for."""
        with self._lock:
            lanes = [self._default, *self._lanes]
            return [each for queue in (*(lane.queue for lane in lanes), self._summaries) for each in queue]

    def clear(self) -> None:
        """Forget all answers that are left."""
        with self._lock:
            for queue in (*(lane.queue for lane in (self._default, *self._lanes)), self._summaries):
                queue.clear()


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = False  # closing the server waits for them: none outlives its test

    def __init__(self, api: "MessagesApi") -> None:
        self.api = api
        self.stopping = threading.Event()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        try:
            super().finish_request(request, client_address)
        except ConnectionError:
            pass  # the client is gone, killed perhaps
        except Exception as problem:  # noqa: BLE001 - whatever it is, the test is to hear of it
            self.api.fail(f"the server failed: {problem!r}")
        finally:
            with self._lock:
                self._open.discard(request)

    def stop(self) -> None:
        self.shutdown()
        self.stopping.set()
        with self._lock:
            for each in self._open:
                try:
                    each.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # closed by the client in the meantime
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._whole(200, b"")

    def do_GET(self) -> None:
        if self.path.partition("?")[0] == _MODELS:
            self._json(200, {"data": [], "models": []})
        else:
            self._unexpected()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        wire = _WIRES.get(path)
        if wire is None:
            self._unexpected()
            return
        headers = {name.lower(): value for name, value in self.headers.items() if name.lower() not in _SECRET}
        request = self.server.api.record(self.path, headers, wire.request(json.loads(body)), wire)
        if request.kind == "count":
            self._json(200, {"input_tokens": len(body) // 4})
            return
        reply = self.server.api.answer(request)
        if self.server.stopping.wait(reply.delay):
            return
        if reply.status != 200:
            self._json(reply.status, wire.error(reply), dict(reply.headers))
        elif request.body.get("stream"):
            self._stream(wire, request, reply)
        elif reply.hangs:
            self._hang()
        else:
            self._json(200, wire.whole(reply, request.number, request.body))

    def _stream(self, wire: Wire, request: Request, reply: Reply) -> None:
        if reply.hangs and not reply.blocks:
            self._hang()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in wire.events(reply, request.number, request.body):
            self.wfile.write(event.encode())
        if reply.hangs:
            self._hang()
        self.close_connection = True

    def _hang(self) -> None:
        self.server.stopping.wait()
        self.close_connection = True

    def _unexpected(self) -> None:
        self.server.api.fail(f"unexpected request: {self.command} {self.path}")
        self.close_connection = True
        self._json(404, error(404, f"{self.command} {self.path} is not scripted").error())

    def _json(self, status: int, value: Any, headers: Mapping[str, str] | None = None) -> None:
        self._whole(status, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

    def _whole(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class MessagesApi:
    """The server; runs while its `with` block does."""

    def __init__(self) -> None:
        self.script = Script()
        self._requests: list[Request] = []
        self._replies: dict[int, Reply] = {}
        self._failures: list[str] = []
        self._changed = threading.Condition()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> "MessagesApi":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop()
        self._thread.join()

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def requests(self) -> list[Request]:
        """Every request so far, in the order they came in."""
        with self._changed:
            return list(self._requests)

    @property
    def turns(self) -> list[Request]:
        """The requests of agents at work."""
        return [each for each in self.requests if each.kind == "turn"]

    @property
    def compactions(self) -> list[Request]:
        """The requests for the summary that a conversation continues from."""
        return [each for each in self.requests if each.kind == "compaction"]

    @property
    def sides(self) -> list[Request]:
        """The requests that carry no tools."""
        return [each for each in self.requests if each.kind == "side"]

    @property
    def failures(self) -> list[str]:
        """What was asked for and not scripted."""
        with self._changed:
            return list(self._failures)

    def wait_for(self, match: Match = "", *, count: int = 1, timeout: float = 20) -> Request:
        """The `count`th turn that matches (a string: occurs anywhere), waited for; raises NotAsked."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while True:
                found = [
                    each
                    for each in self._requests
                    if each.kind == "turn" and (each.has(match) if isinstance(match, str) else match(each))
                ]
                if len(found) >= count:
                    return found[count - 1]
                if not self._changed.wait(deadline - time.monotonic()):
                    raise NotAsked(f"no such request within {timeout} s; there were:\n{self.shown()}")

    def verify(self) -> None:
        """Raise ScriptFailed if more was asked for than scripted, or the other way round."""
        self.raise_failures()
        if left := self.script.left():
            asked = "\n".join(f"  {each}" for each in left)
            raise ScriptFailed(f"never asked for:\n{asked}\nthe requests were:\n{self.shown()}")

    def raise_failures(self) -> None:
        """Raise ScriptFailed if more was asked for than scripted."""
        if self.failures:
            raise ScriptFailed("\n".join([*self.failures, "the last requests were:", self.shown()]))

    def shown(self, last: int = 6) -> str:
        """The last requests and what was answered, for a person."""
        with self._changed:
            lines = [f"  {each}\n    -> {self._replies.get(each.number, '-')}" for each in self._requests[-last:]]
        return "\n".join(lines) or "  none"

    def fail(self, what: str) -> None:
        """Record that something was asked for that is not scripted."""
        with self._changed:
            self._failures.append(what)
            self._changed.notify_all()

    def record(self, path: str, headers: Mapping[str, str], body: Mapping[str, Any], wire: Wire) -> Request:
        """Record a request."""
        with self._changed:
            request = Request(len(self._requests) + 1, path, headers, body, "turn")
            request = Request(request.number, path, headers, body, self._kind(request, wire))
            self._requests.append(request)
            self._changed.notify_all()
            return request

    def _kind(self, request: Request, wire: Wire) -> Kind:
        if request.path.startswith(_COUNT):
            return "count"
        if wire.compaction in request.prompt:
            return "compaction"
        return "side" if self.script.is_side(request) else "turn"

    def answer(self, request: Request) -> Reply:
        """What the script says to `request`."""
        try:
            answer = self.script.take(request)
            reply = answer(request) if callable(answer) else answer
        except Exception as problem:  # noqa: BLE001 - a scripted function's own; the test is to hear of it
            self.fail(f"the script's answer to request {request.number} failed: {problem!r}")
            reply = text("script failed")
        if reply is None:
            self.fail(f"the script ran out at request {request.number}")
            reply = text("script exhausted")
        with self._changed:
            self._replies[request.number] = reply
        return reply
