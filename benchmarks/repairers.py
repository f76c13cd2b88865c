"""The libraries that are measured beside faber, if they are installed: what they call a text, and make of one."""

import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent / "peers"
# Of each library: how its distribution is called.
PYTHON = {
    "json_repair": "json-repair",
    "partial_json_parser": "partial-json-parser",
    "jiter": "jiter",
    "ijson": "ijson",
}


class Peer(NamedTuple):
    """A library: its version, what it calls a text, and the document it makes of one (a ValueError if none)."""

    name: str
    version: str
    classify: Callable[[str], str]
    repair: Callable[[str], Any] | None


def installed(directory: str | None) -> list[Peer]:
    """The peers in `directory` (pip's --target and npm's --prefix), or those that Python finds by itself."""
    if directory:
        sys.path.append(directory)
    found = []
    for module, distribution in PYTHON.items():
        try:
            library = importlib.import_module(module)
            version = metadata.version(distribution)
        except (ImportError, metadata.PackageNotFoundError):
            continue
        found.append(_MAKERS[module](library, version))
    place = Path(directory or HERE) / "node_modules" / "jsonrepair"
    if shutil.which("node") and place.exists():
        found.append(_jsonrepair(place))
    return found


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _by_repair(repair: Callable[[str], Any]) -> Callable[[str], str]:
    """Classify as a caller can who has only a repair: what `json` reads is complete, what can be repaired was cut."""

    def classify(text: str) -> str:
        if _is_json(text):
            return "complete"
        try:
            made = repair(text)
        except (ValueError, RecursionError):
            return "malformed"
        return "truncated" if made not in ("", None) else "malformed"

    return classify


def _guarded(repair: Callable[[str], Any]) -> Callable[[str], Any]:
    """`repair` with every failure as a ValueError: whatever a library raises, it has refused the text."""

    def guarded(text: str) -> Any:
        try:
            return repair(text)
        except Exception as error:  # noqa: BLE001 - assertions and index errors too
            raise ValueError(str(error)) from None

    return guarded


def _json_repair(library: Any, version: str) -> Peer:
    loads = _guarded(library.loads)
    return Peer("json_repair", version, _by_repair(loads), loads)


def _partial_json_parser(library: Any, version: str) -> Peer:
    loads = _guarded(library.loads)
    return Peer("partial-json-parser", version, _by_repair(loads), loads)


def _jiter(library: Any, version: str) -> Peer:
    def classify(text: str) -> str:
        try:
            library.from_json(text.encode(), allow_inf_nan=False)
        except ValueError as error:
            return "truncated" if str(error).startswith("EOF") else "malformed"
        return "complete"

    def repair(text: str) -> Any:
        return library.from_json(text.encode(), partial_mode="trailing-strings")

    return Peer("jiter", version, classify, repair)


def _ijson(library: Any, version: str) -> Peer:
    def classify(text: str) -> str:
        try:
            for _ in library.basic_parse(text.encode(), use_float=True):
                pass
        except library.IncompleteJSONError as error:
            # Its fast backend reports every mistake so; only the words differ.
            words = str(error)
            return "truncated" if "premature EOF" in words or "Incomplete" in words else "malformed"
        except (library.JSONError, ValueError):
            return "malformed"
        return "complete"

    return Peer("ijson", version, classify, None)


_MAKERS: dict[str, Callable[[Any, str], Peer]] = {
    "json_repair": _json_repair,
    "partial_json_parser": _partial_json_parser,
    "jiter": _jiter,
    "ijson": _ijson,
}

_SERVER = """
const {jsonrepair} = require(process.argv[1]);
require('readline').createInterface({input: process.stdin}).on('line', line => {
  let answer;
  try { answer = {text: jsonrepair(JSON.parse(line))}; } catch (error) { answer = {error: String(error.message)}; }
  process.stdout.write(JSON.stringify(answer) + '\\n');
});
"""


def _jsonrepair(place: Path) -> Peer:
    version = json.loads((place / "package.json").read_text(encoding="utf-8"))["version"]
    # Ends with its stdin, that is with this program.
    server = subprocess.Popen(
        ["node", "-e", _SERVER, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )

    def repair(text: str) -> Any:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(text) + "\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        if "error" in answer:
            raise ValueError(answer["error"])
        return json.loads(answer["text"])

    return Peer("jsonrepair (npm)", version, _by_repair(repair), repair)
