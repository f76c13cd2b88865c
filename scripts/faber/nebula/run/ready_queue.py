"""The queue of phases that are ready to start. Over a whole run its cost is linear in the size of the graph."""

import heapq
from collections.abc import Collection

from faber.nebula.plan.graph import Dag, Insertion
from faber.nebula.plan.plan_errors import UnknownPhase


class Frontier:
    """The border between phases that are done and phases that may start.

    The counter of a phase is decremented once per dependency, and a phase enters the heap once, so that 5,000 phases
    cost no more than their edges and one sort. Not thread-safe.
    """

    def __init__(
        self, dag: Dag, done: Collection[str] = (), failed: Collection[str] = (), skipped: Collection[str] = ()
    ) -> None:
        """`done`, `failed` and `skipped` phases of an earlier process are never returned. Phases that are not in the
        graph are ignored."""
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
        """The best phase that may start, which now counts as running; None if there is none."""
        while self._heap:
            _, _, name = heapq.heappop(self._heap)
            if self._waiting(name):
                self.running.add(name)
                return name
        return None

    def ready(self) -> list[str]:
        """Every phase that `take` would return, best first."""
        return [name for _, _, name in sorted(self._heap) if self._waiting(name)]

    def finish(self, phase: str) -> list[str]:
        """`phase` is done; returns the phases that may start because of it, best first."""
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
        """`phase` failed. Once it is known that nothing replaces it, `skip_after` skips its dependents."""
        self._end(phase)
        self.failed.add(phase)

    def skip_after(self, phase: str) -> list[str]:
        """Skip every phase that depends on the failed `phase`, directly or indirectly; returns those that were not
        skipped before, sorted."""
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
        """`phase` will not be started."""
        self._end(phase)
        self.skipped.add(phase)

    def insert(self, insertion: Insertion, failed_id: str, new_id: str) -> None:
        """Continue with the graph that has the remediation `new_id` of `failed_id`, which may start at once."""
        if failed_id not in self.failed:
            raise UnknownPhase(f"{failed_id} has not failed.", phase=failed_id)
        self.dag = insertion.dag
        # The dependents' counters stay: one dependency replaced another.
        self._waits[new_id] = 0
        heapq.heappush(self._heap, self.dag.rank(new_id))

    def _waiting(self, name: str) -> bool:
        return not (name in self.done or name in self.failed or name in self.skipped or name in self.running)

    def _end(self, phase: str) -> None:
        if phase not in self.dag.dependencies:
            raise UnknownPhase(f"There is no phase {phase[:80]!a}.", phase=ascii(phase))
        self.running.discard(phase)
