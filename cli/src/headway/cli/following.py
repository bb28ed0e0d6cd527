"""Following a run to its end, for `watch` and `start --wait`."""

from headway.cli.command import LONG_PATIENCE, Exit, Session
from headway.cli.telling import event_line, one_line, run_duration, run_error_line, run_state_text
from headway.client import Event, Progress, Run, RunState


async def follow(session: Session, run_id: str, *, from_seq: int = 1) -> tuple[Run, list[Event]]:
    """Show a run's events as they come; returns the finished run and, unless they were shown as lines, its events."""
    output = session.output
    events: list[Event] = []
    async with session.client() as client:
        await client.get(run_id)  # what is not there is said at once, not after a patient watch
    async with session.client(patience=LONG_PATIENCE) as client:
        with output.busy(f"run {run_id} goes on"):
            while True:
                async for progress in client.watch(run_id, from_seq=from_seq):
                    from_seq = progress.event.seq + 1
                    _show(session, progress)
                    if output.as_json:
                        events.append(progress.event)
                run = (await client.get(run_id)).run
                if run.state.is_final:
                    return run, events


def _show(session: Session, progress: Progress) -> None:
    if session.output.as_lines:
        session.output.line(progress)
    elif session.output.for_people:
        session.output.say(event_line(progress.event))


def tell_outcome(session: Session, run: Run) -> None:
    """Say to people how the run ended."""
    took = ""
    if run.finished_at is not None:
        took = f" after {run_duration(run, run.finished_at)}"
    line = run_state_text(run)
    line.append(took, style="default")
    if run.error is not None:
        line.append(f": {one_line(run_error_line(run.error))}", style="default")
    session.output.say(line)


def exit_of(state: RunState) -> Exit:
    """How a command ends that was about the run's success."""
    return Exit.SUCCESS if state is RunState.SUCCEEDED else Exit.FAILED
