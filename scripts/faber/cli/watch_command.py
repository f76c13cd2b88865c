"""`faber watch`: a run, or all, live."""

import os
import signal
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from faber.console.arguments import complete_run, run_named
from faber.console.invocation import Invocation
from faber.console.output import columns, on_terminal, say, spelled_command, write, write_lines
from faber.errors import Exit, UsageError
from faber.foreign.resolve import open_named
from faber.model.documents import nebula_of
from faber.store.clock import utc_now
from faber.view.board_text import one_row
from faber.view.following import Follower, Runs
from faber.view.live_frame import QUIT, RESPOND, Scene, Watching, asked_of, frame, over, pressed
from faber.view.run_view import EventLine, RunView
from faber.view.styled_lines import clean
from faber.view.tree_text import tree

if TYPE_CHECKING:
    from faber.nebula.view.outlook import Outlook

LOOKS = 0.5  # seconds between two looks at a directory, at least
SHARE = 0.015  # of a core: how much of it watching may take, so that a huge run is looked at less often
CLOCK = 1.0  # seconds after which elapsed times are drawn again
FINDS = 2.0  # seconds between two searches for new runs
FORESEES = 5.0  # seconds between two estimates


@click.command()
@click.argument("run", metavar="[RUN]", required=False, shell_complete=complete_run)
@click.option("--all", "everything", is_flag=True, help="All open runs, until you end it.")
@click.pass_obj
def watch(obj: Invocation, run: str | None, everything: bool) -> int:
    """Show a run, or all, live, whichever process works on them. Changes nothing.

    On a terminal: q ends it, the arrow keys select, Enter shows details, r answers what is asked. Elsewhere: a line
    for each event. It ends with the run, or when the run waits for a person.

    Exit status 0 if the run is completed or you end it, 5 if it failed or was cancelled, 3 if it waits for a person,
    130 if it was interrupted.
    """
    if everything and run is not None:
        raise UsageError("Give RUN or --all, not both.")
    source = _All(obj) if everything else _One(obj, run)
    if not on_terminal():
        return _print_lines(source)
    ended = _show(obj, source)
    if isinstance(source, _One):
        view = source.scene().views[0]
        write_lines(tree(view, columns(), spelled_command))
        if not ended:
            return exit_status(view)
    return Exit.OK


def exit_status(view: RunView) -> int:
    """What watching a run to this end returns."""
    if view.status == "awaiting_feedback":
        return Exit.PERSON_NEEDED
    return Exit.UNFINISHED if view.status in ("failed", "cancelled") else Exit.OK


class _One:
    """One run, and what may be said of its future."""

    def __init__(self, obj: Invocation, run: str | None) -> None:
        self._follower = Follower(obj.layout, open_named(obj.layout, run_named(obj, run)), time.monotonic())
        self._foreseen, self._said = -FORESEES, list[tuple[str, str]]()
        self._outlook: Outlook | None = None

    def look(self) -> Iterable[tuple[str, EventLine]]:
        """The new events, with the run of each."""
        found = self._follower.look(time.monotonic())
        return [(self._follower.run.run_id, event) for event in found]

    def scene(self) -> Scene:
        """What there is to see now."""
        return Scene([self._follower.view(utc_now())], outlook=self._said)

    def foresee(self) -> None:
        """Estimate again, now and then."""
        run = self._follower.run
        if nebula_of(run.state) is None or time.monotonic() - self._foreseen < FORESEES:
            return
        from faber.nebula.view.outlook import Outlook

        self._outlook = self._outlook or Outlook(run)
        self._foreseen, self._said = time.monotonic(), self._outlook.texts(run, utc_now())


class _All:
    """All runs of the store."""

    def __init__(self, obj: Invocation) -> None:
        self._runs, self._found = Runs(obj.layout), -FINDS

    def look(self) -> Iterable[tuple[str, EventLine]]:
        """The new events, with the run of each."""
        if time.monotonic() - self._found >= FINDS:
            self._found = time.monotonic()
            self._runs.find(self._found)
        return [*self._runs.look(time.monotonic())]

    def scene(self) -> Scene:
        """What there is to see now."""
        views, damaged = self._runs.board(utc_now())
        return Scene(views, board=True, damaged=damaged)

    def foresee(self) -> None:
        """Nothing is said of the future of many runs."""


def _over(scene: Scene) -> bool:
    """True if there is nothing more to wait for; the board of all runs continues."""
    return not scene.board and over(scene.views[0])


def _print_lines(source: _One | _All) -> int:
    """A line for each event, for a program or a file, and how it stands at the beginning and the end."""
    source.look()
    scene = source.scene()
    for view in scene.views:
        write(f"{view.run_id}  {one_row(view)}\n")
    if _over(scene):
        return exit_status(scene.views[0])
    while not _over(scene):
        sys.stdout.flush()
        time.sleep(LOOKS)
        news = [*source.look()]
        scene = source.scene() if news else scene
        for run_id, event in news:
            place = ":".join(part for part in (event.phase, event.step) if part)
            parts = (event.at, *((run_id,) if isinstance(source, _All) else ()), event.type, place, event.text)
            write(clean("  ".join(part for part in parts if part)) + "\n")
    (view,) = scene.views
    write(f"{view.run_id}  {one_row(view)}\n")
    return exit_status(view)


def _show(obj: Invocation, source: _One | _All) -> bool:
    """Draw until the run is over; True if the person ended it before. Raises `KeyboardInterrupt`."""
    from faber.console.live_screen import LiveScreen

    at, scene, size, fresh = Watching(), Scene([]), (0, 0), True
    due = drawn = -CLOCK
    with LiveScreen() as screen:
        while not screen.ended:
            now, begun = time.monotonic(), time.process_time()
            looks = now >= due
            if looks or size != screen.size:
                news = [*source.look()]
                if news or now - drawn >= CLOCK or size != screen.size:
                    source.foresee()
                    scene, drawn, size, fresh = source.scene(), now, screen.size, True
            try:
                if fresh:
                    screen.draw(frame(scene, at, *size, spelled_command))
            except OSError:  # the terminal is gone
                screen.ended = signal.SIGHUP
                break
            fresh = False
            if _over(scene):
                return False
            if looks:
                due = now + max(LOOKS, (time.process_time() - begun) / SHARE)
            for key in screen.keys(max(0.0, due - time.monotonic())):
                if key == QUIT:
                    return True
                if key == RESPOND and (asked := asked_of(scene, at)):
                    screen.give_back()
                    _respond(obj, asked[0], asked[1].request_id)
                    screen.take()
                at, fresh = pressed(key, at, scene), True
        ended = screen.ended
    if ended == signal.SIGINT:
        raise KeyboardInterrupt
    os.kill(os.getpid(), ended)  # as if it had never been caught
    return True


def _respond(obj: Invocation, run_id: str, request_id: str) -> None:
    """Ask the person as `faber feedback respond` does; what it refuses is said, and watching continues."""
    from faber.cli.feedback import respond
    from faber.errors import FaberError

    try:
        click.get_current_context().invoke(respond, run=run_id, response=None, request_id=request_id, comment=None)
    except FaberError as error:
        say(f"faber: {error.message}")
    except (KeyboardInterrupt, click.Abort):
        say("")
