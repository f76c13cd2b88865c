"""What the branches, refs and directories of a nebula's run are called. Pure."""

import hashlib
import re
from typing import NamedTuple
from uuid import UUID

from faber.model.ids import check_run_id, slug

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_SHORT = 40


class Names(NamedTuple):
    """The names that belong to one run of one nebula; `nebula` and `short` are parts of refs."""

    run_id: str
    nebula: str
    short: str

    @property
    def prefix(self) -> str:
        """What all branches of the run begin with."""
        return f"faber/{self.nebula}/{self.short}"

    @property
    def integration(self) -> str:
        """The branch that approved phases are merged into."""
        return f"{self.prefix}/integration"

    def phase_branch(self, phase_id: str) -> str:
        """The branch that a phase is worked on."""
        return f"{self.prefix}/phase/{part(phase_id)}"

    @property
    def own_refs(self) -> tuple[str, ...]:
        """The prefixes of all refs that the run moves."""
        return f"refs/heads/{self.prefix}/", f"refs/faber/parked/{self.run_id}/"


def names_of(nebula: str, run_id: str) -> Names:
    """The names of a run; raises `InvalidRunId`. Of a run id that ends in a UUID the first eight digits are taken, of
    others eight digits of their hash, so that runs whose ids begin alike have different branches."""
    last = check_run_id(run_id).rpartition("/")[2]
    return Names(run_id, part(nebula), last[:8].lower() if _is_uuid(last) else _hash(run_id, 8))


def part(text: str) -> str:
    """`text` as one part of a ref and of a path: itself where git and every file system take it so, else what can be
    kept of it and its hash. Different texts have different parts."""
    plain = _PLAIN.fullmatch(text) and ".." not in text and not text.endswith(".")
    if plain and not text.lower().endswith(".lock"):
        return text
    return f"{slug(text)[:_SHORT].rstrip('.-_')}-{_hash(text, 12)}"


def _hash(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False
