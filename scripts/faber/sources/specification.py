"""The specification of a run: located inside the repository, read in full, and parsed into its sections.

Implements context reconstitution 0.2. A specification is optional: problems with it are returned
as notices, never raised.
"""

import errno
import os
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from faber.errors import Notice, Severity
from faber.sources.specification_document import Specification, SpecificationParts
from faber.store.external_files import StrPath, Unreadable, read_text
from faber.text.safe_text import inert, shorten

LIMIT = 2_000_000

Memo = Callable[[str, str, Callable[[str], Any]], Any]
"""`memo(name, text, compute)`: `compute(text)`, or the cached result of an earlier call with this name and text."""

# Increased whenever the result of `parse` for the same text changes.
_MEMO_NAME = "specification-1"


class _Parsed(TypedDict):
    """What `memo` keeps: JSON values."""

    spec: SpecificationParts
    notices: list[dict[str, Any]]


_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_MISSING = "does not exist (it may not have been created yet)"


def load(root: StrPath, spec_path: str, *, memo: Memo | None = None) -> tuple[Specification | None, list[Notice]]:
    """The specification at `spec_path`, or None, and notices that say why (context reconstitution 0.2).

    `spec_path` is relative to the repository's `root`, or absolute; an absolute path that does not exist, or is not
    inside, is tried below `root` ("/specs/X.md" is <root>/specs/X.md). The real path, all links resolved, must lie
    inside the real root and outside its `.git`, and be a readable regular file of at most 2 MB.

    `memo` may cache the parsed form between calls; it takes and returns only JSON values.

    Notices: those of `parse`, `spec_path_invalid` (WARNING: the file does not exist yet, or is outside the repository)
    and `spec_unreadable` (ERROR: the file exists, but cannot be used).
    """
    path, notices = _resolve(root, spec_path)
    if path is None:
        return None, notices
    try:
        text = read_text(path, LIMIT)
    except (Unreadable, OSError) as error:
        return None, [_unusable(spec_path, error)]
    parsed: _Parsed = memo(_MEMO_NAME, text, _parse_to_json) if memo else _parse_to_json(text)
    relative = os.path.relpath(path, os.path.realpath(root))
    notices = [_notice(fields)._replace(source=relative) for fields in parsed["notices"]]
    return {"path": relative, **parsed["spec"], "content": text}, notices


def parse(text: str) -> tuple[SpecificationParts, list[Notice]]:
    """The parts that the protocol extracts from a specification.

    * `title`, `type`, `status`: from the front matter (YAML in `---`, TOML in `+++`), else from the
      first h1 and from `**Type**: …` lines above the first section;
    * `summary`, `goals`, `functional_requirements`, `technical_approach`: the section's whole text;
    * `files_to_modify`: from lists, tables, subheadings and code blocks.

    Sections are known by their headings, whatever the case, numbering, emoji or usual synonym.
    Notice: `spec_front_matter_invalid` (WARNING); the body is parsed all the same.
    """
    from faber.sources.sections import extract  # compiling its patterns takes longer than reading a cached result

    spec, problem = extract(text.replace("\r\n", "\n").replace("\r", "\n"))
    if problem is None:
        return spec, []
    return spec, [
        Notice(
            "spec_front_matter_invalid",
            Severity.WARNING,
            f"The specification's front matter was left out: {inert(shorten(problem, 300))}.",
            "Correct the block between the first two --- or +++ lines.",
        )
    ]


def _parse_to_json(text: str) -> _Parsed:
    spec, notices = parse(text)
    return {"spec": spec, "notices": [notice.as_dict() for notice in notices]}


def _notice(fields: Mapping[str, Any]) -> Notice:
    return Notice(**dict(fields) | {"severity": Severity(fields["severity"])})


def _resolve(root: StrPath, spec_path: str) -> tuple[str | None, list[Notice]]:
    if not spec_path.strip() or "\0" in spec_path or not spec_path.isprintable():
        return None, [_invalid(spec_path, "is not a path")]
    real_root = os.path.realpath(root)
    outside = False
    for candidate in _candidates(real_root, spec_path):
        try:
            real = os.path.realpath(candidate)
        except OSError:
            continue
        if not _inside(real, real_root):
            outside = outside or _exists(real) or not spec_path.startswith("/")
        elif ".git" in os.path.relpath(real, real_root).split(os.sep):
            return None, [_invalid(spec_path, "is inside the repository's .git directory")]
        elif _exists(real):
            return real, []
    if outside:
        return None, [_invalid(spec_path, "is outside the repository")]
    return None, [_invalid(spec_path, _MISSING)]


def _candidates(real_root: str, spec_path: str) -> list[str]:
    below = os.path.join(real_root, spec_path.lstrip("/"))
    return [spec_path, below] if spec_path.startswith("/") else [below]


def _inside(real: str, real_root: str) -> bool:
    return real == real_root or real.startswith(real_root.rstrip(os.sep) + os.sep)


def _exists(real: str) -> bool:
    # Any other error (no permission, a loop of links) means that the file exists: reading it gives the reason.
    try:
        os.lstat(real)
    except OSError as error:
        return error.errno not in _ABSENT
    except ValueError:
        return False
    return True


def _unusable(spec_path: str, error: Unreadable | OSError) -> Notice:
    if isinstance(error, OSError) and error.errno in _ABSENT:  # deleted since it was found
        return _invalid(spec_path, _MISSING)
    reason = (
        str(error) if isinstance(error, Unreadable) else f"cannot be read: {error.strerror or type(error).__name__}"
    )
    return Notice(
        "spec_unreadable",
        Severity.ERROR,
        f"The specification {_shown(spec_path)} {reason}.",
        "Make the file readable, regenerate it, or continue without it.",
        _shown(spec_path),
    )


def _invalid(spec_path: str, reason: str) -> Notice:
    return Notice(
        "spec_path_invalid",
        Severity.WARNING,
        f"The specification {_shown(spec_path) or '(empty path)'} {reason}.",
        "Nothing to do in an early phase; otherwise correct artifacts.spec_path.",
        _shown(spec_path),
    )


def _shown(spec_path: str) -> str:
    return shorten(inert(spec_path).replace("\n", " "), 300)
