"""Names of the branches, refs and directories of a nebula's run. Pure."""

import hashlib
import re
from typing import NamedTuple
from uuid import UUID

from faber.model.ids import check_run_id, slug

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_SHORT = 40


class Names(NamedTuple):
    """The names of one run of one nebula; `nebula` and `short` are components of refs."""

    run_id: str
    nebula: str
    short: str

    @property
    def prefix(self) -> str:
        """The prefix of all branches of the run."""
        return f"faber/{self.nebula}/{self.short}"

    @property
    def integration(self) -> str:
        """The branch that approved phases are merged into."""
        return f"{self.prefix}/integration"

    def phase_branch(self, phase_id: str) -> str:
        """The branch of a phase."""
        return f"{self.prefix}/phase/{part(phase_id)}"

    def merged_ref(self, phase_id: str) -> str:
        """The ref that keeps the merge of a phase in the repository if the integration branch is deleted."""
        return f"refs/faber/merged/{self.run_id}/{part(phase_id)}"

    @property
    def own_refs(self) -> tuple[str, ...]:
        """The prefixes of all refs that the run writes."""
        return f"refs/heads/{self.prefix}/", f"refs/faber/parked/{self.run_id}/", f"refs/faber/merged/{self.run_id}/"


def names_of(nebula: str, run_id: str) -> Names:
    """The names of a run; raises `InvalidRunId`.

    `short` is the first eight digits of the UUID at the end of the run id, or eight digits of the id's hash if it does
    not end in one, so that similar ids have different branches.
    """
    last = check_run_id(run_id).rpartition("/")[2]
    return Names(run_id, part(nebula), last[:8].lower() if _is_uuid(last) else _hash(run_id, 8))


def part(text: str) -> str:
    """`text` as one component of a ref and of a path.

    It is unchanged if git and every file system accept it, else a slug and a hash. Different texts give different
    components.
    """
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
