"""What a run's log says of healing, read from the store."""

from faber.model.documents import Event
from faber.nebula.healing.healing_history import attempts_of, healing_summary, results_of
from faber.store import log
from faber.store.layout import Layout


def healing_events(layout: Layout, run_id: str) -> list[Event]:
    """The events of a run that healing recorded, in order."""
    directory = layout.run_dir(run_id)
    return [
        log.read_event(directory, entry.file) for entry in log.listing(directory) if entry.type.startswith("healing_")
    ]


def recorded_summary(layout: Layout, run_id: str) -> str:
    """What healing did in a run, for the end of a report; empty where it did nothing."""
    events = healing_events(layout, run_id)
    return healing_summary(attempts_of(events), results_of(events))
