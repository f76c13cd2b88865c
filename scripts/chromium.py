"""A headless Chromium that loads pages, is asked about them, and takes pictures: through its own pipe, without a port.

Standard library only. Nothing is loaded from a network: the browser resolves no name.
"""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--hide-scrollbars", "--remote-debugging-pipe",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip
# Chromium speaks on the descriptors 3 and 4; those given here may be these two, the other way round.
_WIRED = """
import fcntl, os, sys
reads, writes = (fcntl.fcntl(int(given), fcntl.F_DUPFD, 10) for given in sys.argv[1:3])
os.dup2(reads, 3)
os.dup2(writes, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def program() -> str | None:
    """The path of a Chromium; None without one."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Chromium:
    """A browser with one page, as a context manager. `said` is what the page's console and its policy said."""

    def __init__(self, path: str) -> None:
        self.said: list[str] = []
        self.asked: list[str] = []  # the addresses that were requested
        self._profile = tempfile.mkdtemp(prefix="faber-chromium-")
        reads, self._to = os.pipe()
        self._from, writes = os.pipe()
        command = [path, *_OPTIONS, f"--user-data-dir={self._profile}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _WIRED, str(reads), str(writes), *command],
            pass_fds=(reads, writes),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TMPDIR")}
            | {"HOME": self._profile},
        )
        os.close(reads)
        os.close(writes)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self._loaded = False
        page = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Performance"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> "Chromium":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._session = None
            self.call("Browser.close")
        except (OSError, RuntimeError):
            self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self._profile, ignore_errors=True)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a method of the DevTools protocol."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            told = self._read()
            if told.get("id") == self._number:
                if "error" in told:
                    raise RuntimeError(f"{method}: {told['error']['message']}")
                result: dict[str, Any] = told["result"]
                return result

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._from, 1 << 20)
            if not piece:
                raise RuntimeError("Chromium ended")
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        told: dict[str, Any] = json.loads(line)
        given = told.get("params", {})
        match told.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Log.entryAdded":
                self.said.append(given["entry"]["text"])
            case "Runtime.consoleAPICalled":
                self.said.append(" ".join(str(each.get("value")) for each in given["args"]))
            case "Runtime.exceptionThrown":
                self.said.append(str(given["exceptionDetails"].get("exception", {}).get("description")))
            case "Network.requestWillBeSent":
                self.asked.append(given["request"]["url"])
        return told

    def open(self, page: Path, *, width: int = 1100, height: int = 900, scripts: bool = True) -> float:
        """Load the file; the seconds until it is loaded and painted."""
        self.size(width, height)
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self._loaded = False
        begun = time.perf_counter()
        self.call("Page.navigate", url=page.resolve().as_uri())
        while not self._loaded:
            self._read()
        if scripts:
            self.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
        return time.perf_counter() - begun

    def seconds(self) -> float:
        """The processor time that the page's process has used."""
        told = self.call("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in told if each["name"] == "ProcessTime"))

    def size(self, width: int, height: int, scale: float = 1) -> None:
        """Make the window so many pixels wide and high."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False
        )

    def prefer(self, scheme: str, *, print_: bool = False) -> None:
        """Look like a person who prefers the `light` or the `dark` scheme; or like paper."""
        self.call(
            "Emulation.setEmulatedMedia",
            media="print" if print_ else "",
            features=[
                {"name": "prefers-color-scheme", "value": scheme},
                {"name": "prefers-reduced-motion", "value": "reduce"},
            ],
        )

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page, awaited."""
        done = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            raise RuntimeError(str(done["exceptionDetails"].get("exception", {}).get("description")))
        return done["result"].get("value")

    def key(self, key: str, text: str = "") -> None:
        """Press and release a key; `text` is what it types."""
        code = {"Tab": 9, "Escape": 27, "Enter": 13}.get(key, ord(key[0].upper()))
        given = {"key": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **given)
        self.call("Input.dispatchKeyEvent", type="keyUp", **given)

    def write(self, text: str) -> None:
        """Type a text where the focus is."""
        self.call("Input.insertText", text=text)

    def picture(self, *, top: int = 0, height: int | None = None, width: int | None = None) -> bytes:
        """A PNG of the page from `top`; without a height of the whole page."""
        sizes = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {
            "x": 0,
            "y": top,
            "width": width or sizes["width"],
            "height": height or sizes["height"] - top,
            "scale": 1,
        }
        shot = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False, preferCSSPageSize=False)["data"])
