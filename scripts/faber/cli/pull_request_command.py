"""`faber pull-request`: opening a run's pull request, and keeping it up to date."""

import click

from faber.console.arguments import next_option, run_argument
from faber.console.invocation import Invocation
from faber.console.output import print_json
from faber.foreign.resolve import open_named
from faber.pull_request.opening import PullRequestOrder, keep_pull_request


@click.command("pull-request")
@run_argument
@click.option(
    "--as-configured", is_flag=True, help="Update it, or open it if the run's current step does; otherwise do nothing."
)
@click.option("--base", metavar="BRANCH", help="The branch to merge into. Default: the project's default branch.")
@click.option("--remote", metavar="NAME", default="origin", show_default=True, help="The git remote to push to.")
@next_option
@click.pass_obj
def pull_request(
    obj: Invocation, run: str, base: str | None, remote: str, *, as_configured: bool, following: bool
) -> None:
    """Push the run's branch and open its pull request on GitHub, or update it.

    Completes the run's current step if the plan says `pull_request: true` there. A draft while requests or gates are
    open or steps before it are left. Repeating opens nothing twice.
    """
    from faber.console.recorded_answer import handed_out
    from faber.github.notifications import tell, with_report
    from faber.pull_request.completing import go_on_without_agent
    from faber.store.commit import Committed

    obj.run = run
    made = open_named(obj.layout, run)
    order = PullRequestOrder(as_configured=as_configured, agent=obj.is_agent, base=base, remote=remote)
    outcome = keep_pull_request(made, order, obj.writer)
    answer, recorded = outcome.as_dict(), list(outcome.committed)
    if following and outcome.step:
        events = [event for each in recorded for event in each.events]
        shown = {key: value for key, value in answer.items() if value not in (None, [])}
        print_json({"pull_request": shown, **handed_out(obj, outcome.run, Committed(events, outcome.run, False))})
        return
    if as_configured and outcome.step and (more := go_on_without_agent(outcome.run, obj.writer)):
        recorded.append(more)
        if more.state["feedback_queue"]:  # a draft while a gate is open
            again = keep_pull_request(more.run, order, obj.writer)
            recorded += again.committed
            answer |= {key: value for key, value in again.as_dict().items() if key in ("draft", "waits")}
    if recorded:
        events = [event for each in recorded for event in each.events]
        last = recorded[-1].run
        answer |= {"status": last.state["status"], "last_event_id": last.state["last_event_id"]}
        answer = with_report(answer, tell(obj.layout, Committed(events, last, not events)))
    print_json(answer)
