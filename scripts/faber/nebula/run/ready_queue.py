"""Which phase begins next, kept up step by step as phases begin and end: linear in the graph over a whole run."""

import heapq
from collections.abc import Collection

from faber.nebula.plan.graph import Dag, Insertion
from faber.nebula.plan.plan_errors import UnknownPhase


class Frontier:
    """The edge between what is done and what may begin.

    Every phase is counted down once for each of its dependencies and enters the heap of ready phases once, so
    5,000 phases cost what their edges and their sorting cost. Not safe for several threads at once: the owner
    holds its own lock.
    """

    def __init__(
        self, dag: Dag, done: Collection[str] = (), failed: Collection[str] = (), skipped: Collection[str] = ()
    ) -> None:
        """Begin where a run stands: `done`, `failed` and `skipped` phases are not handed out, and those that the
        graph does not have are passed over."""
        self.dag = dag
        self.done: set[str] = set()
        self.failed: set[str] = set(failed)
        self.skipped: set[str] = set(skipped)
        self.running: set[str] = set()
        self._waits = {name: len(needed) for name, needed in dag.dependencies.items()}
        self._heap = [dag.rank(name) for name, count in self._waits.items() if not count]
        heapq.heapify(self._heap)
        for name in done:
            if name in dag.dependencies:
                self.finish(name)

    def take(self) -> str | None:
        """The best phase that may begin, now running; None where none may."""
        while self._heap:
            _, _, name = heapq.heappop(self._heap)
            if self._waiting(name):
                self.running.add(name)
                return name
        return None

    def ready(self) -> list[str]:
        """Every phase that `take` would hand out, best first."""
        return [name for _, _, name in sorted(self._heap) if self._waiting(name)]

    def finish(self, phase: str) -> list[str]:
        """`phase` is done; answers the phases that may begin because of it, best first."""
        if phase in self.done:
            return []
        self._end(phase)
        self.done.add(phase)
        self.failed.discard(phase)
        freed = []
        for name in self.dag.dependents[phase]:
            self._waits[name] -= 1
            if not self._waits[name]:
                heapq.heappush(self._heap, self.dag.rank(name))
                if self._waiting(name):
                    freed.append(name)
        return sorted(freed, key=self.dag.rank)

    def fail(self, phase: str) -> None:
        """`phase` failed. Those that wait for it are skipped by `skip_after`, once it is known that nothing
        takes its place."""
        self._end(phase)
        self.failed.add(phase)

    def skip_after(self, phase: str) -> list[str]:
        """Skip every phase that waits for the failed `phase`, directly or through others; answers those that
        were not skipped before, sorted."""
        found = []
        left = list(self.dag.dependents[phase])
        while left:
            name = left.pop()
            if self._waiting(name):
                self.skipped.add(name)
                found.append(name)
                left += self.dag.dependents[name]
        return sorted(found)

    def skip(self, phase: str) -> None:
        """`phase` is not to be begun after all."""
        self._end(phase)
        self.skipped.add(phase)

    def insert(self, insertion: Insertion, failed_id: str, new_id: str) -> None:
        """Go on with the graph that has the remediation `new_id` of `failed_id`: it may begin at once."""
        if failed_id not in self.failed:
            raise UnknownPhase(f"{failed_id} has not failed.", phase=failed_id)
        self.dag = insertion.dag
        # As many as before: they wait for another phase, not for one more.
        self._waits[new_id] = 0
        heapq.heappush(self._heap, self.dag.rank(new_id))

    @property
    def finished(self) -> bool:
        """True if nothing runs and nothing may begin."""
        return not self.running and not any(self._waiting(name) for _, _, name in self._heap)

    def _waiting(self, name: str) -> bool:
        return not (name in self.done or name in self.failed or name in self.skipped or name in self.running)

    def _end(self, phase: str) -> None:
        if phase not in self.dag.dependencies:
            raise UnknownPhase(f"There is no phase {phase[:80]!a}.", phase=ascii(phase))
        self.running.discard(phase)
