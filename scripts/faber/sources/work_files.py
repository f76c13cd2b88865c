"""Work items kept as files: `<id>.json`, `<id>.yaml`, `<id>.yml` or `<id>.md` in one directory."""

import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from faber.sources.work_items import (
    Comment,
    WorkItem,
    WorkItemInvalid,
    WorkItemNetworkError,
    WorkItemNotFound,
    WorkItemUnauthorised,
    moment,
)
from faber.store.external_files import StrPath, Unreadable, read_text
from faber.store.strict import Malformed, json_value, yaml_value

LIMIT = 2_000_000
YAML_LIMIT = 256_000

_ID = r"[A-Za-z0-9][A-Za-z0-9._#-]{0,63}"
_KINDS = (".json", ".yaml", ".yml", ".md")
# Only this much of a comment's heading is matched, so that none can make the pattern slow.
_HEADING = 200
_SEPARATOR = r"\s+[·•|—–-]\s+|\s+\(|\)$|,\s+"


class FileWorkItems(NamedTuple):
    """Work items as files, for projects without a tracker and for tests.

    The id is the file's name without its ending; a leading '#' of the id asked for is dropped. Field
    names may vary: `description` or `body`; `labels` as names or as objects with a `name`;
    `author` or `user` as a name or as an object with a `login` or `name`; `comments` as texts or as
    objects with `author`, `body`, `created_at` and `url`.

    A Markdown file has these fields (except the text) in its front matter and the description below. Its last
    `## Comments` section holds comments, each under a heading `### author · time`. `directory` need not exist.
    """

    directory: StrPath

    def fetch(self, work_id: str) -> WorkItem:
        """The work item of that id; raises only `WorkItemError`."""
        name = work_id.removeprefix("#")
        if not re.fullmatch(_ID, name):
            raise WorkItemInvalid(
                "That is not the id of a work item.",
                recovery="An id is up to 64 letters, digits, '.', '_', '#' and '-', starting with a letter or digit.",
            )
        for kind in _KINDS:
            try:
                text = read_text(os.path.join(self.directory, f"{name}{kind}"), LIMIT)
                return _work_item(name, _READERS[kind](text.replace("\r\n", "\n")))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except PermissionError:
                raise WorkItemUnauthorised(
                    f"{name}{kind} may not be read.", recovery="Make the file readable."
                ) from None
            except OSError as error:
                raise WorkItemNetworkError(f"{name}{kind} cannot be read: {error.strerror}.") from None
            except (Unreadable, Malformed) as error:
                raise WorkItemInvalid(f"{name}{kind} {_sentence(error)}.", recovery=f"Correct {name}{kind}.") from None
        raise WorkItemNotFound(f"There is no {name}.json, .yaml, .yml or .md among the work item files.")


def _sentence(error: Unreadable | Malformed) -> str:
    return error.reason if isinstance(error, Unreadable) else f"is malformed: {error.reason}"


def _json(text: str) -> Any:
    return json_value(text, LIMIT)


def _yaml(text: str) -> Any:
    return yaml_value(text, YAML_LIMIT)


def _markdown(text: str) -> Mapping[str, object]:
    from faber.sources.markdown import outline, split_front_matter

    front, body, problem = split_front_matter(text)
    if problem:
        raise Malformed(f"its front matter: {problem}")
    parts = outline(body)
    title = next((heading for heading in parts.headings if heading.level == 1), None)
    sections = [h for h in parts.headings if h.level == 2 and h.title.strip(" :").lower() == "comments"]
    section = sections[-1] if sections else None
    comments: list[Mapping[str, object]] = []
    if section:
        inside = [h for h in parts.headings if section.line < h.line < section.end and h.level == 3]
        comments = [_heading_comment(heading.title, parts.text(heading)) for heading in inside]
    lines = parts.lines[: section.line] if section else parts.lines
    if title and not front.get("title"):
        front["title"] = title.title
        lines = [line for index, line in enumerate(lines) if not title.line <= index < title.body]
    return {"comments": comments, **front, "description": "\n".join(lines).strip()}


def _heading_comment(heading: str, body: str) -> Mapping[str, object]:
    parts = [part.strip() for part in re.split(_SEPARATOR, heading[:_HEADING]) if part.strip()]
    time = next((part for part in parts if moment(part)), None)
    author = next((part for part in parts if part != time), None)
    return {"author": author.lstrip("@") if author else None, "created_at": time, "body": body}


_READERS = {".json": _json, ".yaml": _yaml, ".yml": _yaml, ".md": _markdown}


# --- fields, in their variants ---------------------------------------------------------------------


def _work_item(name: str, value: Any) -> WorkItem:
    if not isinstance(value, dict):
        raise Malformed("it is not a mapping")
    title = _text(value, "title", "name", "summary")
    if title is None:
        raise Malformed("it has no title")
    labels = _list(value, "labels")
    return {
        "id": name,
        "title": title,
        "description": _text(value, "description", "body") or "",
        "labels": [label for item in labels if (label := _name(item, "name"))],
        "comments": [_comment(item) for item in _list(value, "comments")],
        "url": _url(value),
        "state": _text(value, "state", "status"),
        "author": _person(value),
        "updated_at": _text(value, "updated_at", "updatedAt", "updated"),
        "source": "file",
    }


def _comment(value: Any) -> Comment:
    if isinstance(value, str):
        return {"author": None, "body": value, "created_at": None, "url": None}
    if not isinstance(value, dict):
        raise Malformed("a comment is neither text nor a mapping")
    return {
        "author": _person(value),
        "body": _text(value, "body", "text", "description") or "",
        "created_at": _text(value, "created_at", "createdAt", "created", "date"),
        "url": _url(value),
    }


def _text(value: Mapping[str, Any], *keys: str) -> str | None:
    """The first non-empty value of `keys`, as text; raises `Malformed` for a list or a mapping."""
    for key in keys:
        found = value.get(key)
        if isinstance(found, (dict, list)):
            raise Malformed(f"{key} is not text")
        if found not in (None, ""):
            return str(found)
    return None


def _list(value: Mapping[str, Any], key: str) -> list[Any]:
    found = value.get(key)
    if found is None:
        return []
    if isinstance(found, str) and key == "labels":
        return [part.strip() for part in found.split(",")]
    if not isinstance(found, list):
        raise Malformed(f"{key} is not a list")
    return found


def _name(value: Any, *keys: str) -> str | None:
    if isinstance(value, dict):
        return _text(value, *keys)
    return None if value is None or isinstance(value, list) else str(value)


def _person(value: Mapping[str, Any]) -> str | None:
    return _name(value.get("author", value.get("user")), "login", "name")


def _url(value: Mapping[str, Any]) -> str | None:
    url = _text(value, "html_url", "url")
    return url if url and url.startswith(("https://", "http://")) else None
