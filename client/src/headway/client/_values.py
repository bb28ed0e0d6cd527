"""What the client hands out: plain, frozen values.

Nothing here knows gRPC or protobuf; `_translate` makes these from messages. Instants are `datetime` in UTC, JSON is
plain Python, absent things are None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from headway.client._request_id import new_request_id

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""A JSON value as it is handed out."""

JsonInput: TypeAlias = "bool | int | float | str | Sequence[JsonInput] | Mapping[str, JsonInput] | None"
"""A JSON value as it is taken: read-only, so that `dict[str, int]` is one."""

NO_INPUT: Mapping[str, JsonInput] = {}
"""The input of a run that is given none."""


class RunState(StrEnum):
    """Where a run stands."""

    UNSPECIFIED = "unspecified"  # a state that this version of the client does not know
    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """True when the run is over; only a retry reopens it."""
        return self in {RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED}


class TaskState(StrEnum):
    """Where a task stands."""

    UNSPECIFIED = "unspecified"  # a state that this version of the client does not know
    PENDING = "pending"  # waits for branches that lead to it
    READY = "ready"  # waits for a worker
    RUNNING = "running"  # leased by a worker
    WAITING = "waiting"  # waits for a timer or a signal
    RETRYING = "retrying"  # failed; waits for its next try
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """True when nothing more happens to the task, unless the run is retried."""
        return self in {TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELLED}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunError:
    """Why a run did not succeed.

    Attributes:
        failure_class: "timeout", "exec_failed", "verdict_fail" or "cancelled".
        message: For people.
        paths: The tasks whose failure decided it.
    """

    failure_class: str
    message: str
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of a version of a workflow.

    Attributes:
        run_id: Opaque.
        epoch: Grows when the run is reopened; from 1.
        cancelling: True while a cancel is under way.
        parent_run_id, parent_path: the run, and its subflow node, that started it; empty: nobody's child.
        compensating: True while all is over but for what undoes it.
        last_seq: Sequence number of the latest event.
        key: Idempotency key it was started with; None: none.
        input: Known only from `Client.get`; None elsewhere.
        output: None while the run is not final or has none.
        paused_at: Since when it is paused; None: it is not.
        pause_reason: Why, for people; may be empty.
        clock_paused: True: its time-outs stand still while it is paused.
        cancel_reason: Why it was cancelled, for people; may be empty.
        labels: By name.
        concluded: While only what runs at the end (`finally`) still runs: how it ends then; else None.
        trace_id: Of the trace that it was started in; known only from `Client.get`, and empty when there is none.
    """

    run_id: str
    namespace: str
    workflow: str
    version: int
    state: RunState
    epoch: int
    cancelling: bool
    compensating: bool = False
    parent_run_id: str = ""
    parent_path: str = ""
    created_at: datetime | None
    finished_at: datetime | None
    error: RunError | None
    output: Json
    last_seq: int
    key: str | None
    input: Json
    paused_at: datetime | None = None
    pause_reason: str = ""
    clock_paused: bool = False
    cancel_reason: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    concluded: RunState | None = None
    trace_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskError:
    """The last failure of a task.

    Attributes:
        failure_class: "timeout", "exec_failed" or "verdict_fail".
        type: Error type, as the handler named it.
        message: For people.
        trace: Stack trace; may be empty.
        details: Further facts; None: none.
        left_out: True: message, trace and details are left out, for the response had no room for them.
            `Client.get_task` has those of a task's last failure, `Client.history` those of all attempts.
    """

    failure_class: str
    type: str
    message: str
    trace: str
    details: Json
    left_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt that was left behind.

    Attributes:
        attempt: Its number.
        owner: Who held it; empty: nobody.
        outcome: "succeeded", "failed", "cancelled", "released", "lost", "timeout" or "unknown".
    """

    attempt: int
    owner: str
    leased_at: datetime | None
    ended_at: datetime | None
    outcome: str
    error: TaskError | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProgress:
    """What a handler told of itself with its heartbeats.

    Attributes:
        percent: From 0 to 100; None: not told.
        message: For people; empty: not told.
        at: When it was last new.
    """

    percent: float | None
    message: str
    at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A node reached in a run.

    Attributes:
        path: Path in the run: the node's id.
        type: Node type, as in the YAML; "finally" for what runs at the end of the run.
        attempt: Fencing number.
        tries: Failures counted against the retry policy.
        losses: Leases lost.
        generation: Grows when a retry of the run repeats it with new effect.
        queue: Empty for control and wait nodes.
        handler: Empty for control and wait nodes.
        owner: Holder of the lease, or the last one.
        lease_expires_at: Set while it runs.
        started_at: When it was first leased, in whichever attempt.
        error: Set when it failed or waits for its next try.
        cause: Why it was stopped; "unknown": it may have taken effect, also where it failed; "skipped": its output was
            given by hand; else empty.
        due_at: When a waiting or retrying task goes on by itself; None: never.
        attempts: Attempts left behind, oldest first.
        output: None: none, or left out.
        output_left_out: Bytes of an output that is left out, for it has more than 64 KiB, or the response had no room
            for it: `Client.get_task` has it. 0: nothing is left out.
        disposition: What became of a failed task's failure: "handled" (a failure edge took it), "tolerated" (a join
            could do without it), "optional" (the node is) or "unhandled"; empty: it did not fail.
        waits_for: The signal that a waiting task waits for; empty: none.
        progress: What the handler of this attempt last told; None: nothing.
        child_run_id: Of a subflow node: the latest run that it started; empty: none.
        ready_at: Since when this attempt waits, or waited, for a worker, a time, a signal, items or another run.
        leased_at: When this attempt was leased; None: it was not.
        undoes: Path of the task that it undoes; empty: none.
        items: How far a map or repeat is; None: it is neither, or never began.
    """

    task_id: str
    path: str
    type: str
    state: TaskState
    attempt: int
    tries: int
    losses: int
    generation: int
    queue: str
    handler: str
    owner: str
    lease_expires_at: datetime | None
    created_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    error: TaskError | None
    cause: str
    due_at: datetime | None
    attempts: tuple[Attempt, ...]
    output: Json
    disposition: str
    waits_for: str
    progress: TaskProgress | None = None
    undoes: str = ""
    items: ItemCounts | None = None
    child_run_id: str = ""
    ready_at: datetime | None = None
    leased_at: datetime | None = None
    output_left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemCounts:
    """How far a map or repeat is.

    Attributes:
        total: Items in its list; of a repeat, the iterations that it may have.
        running: Items or iterations under way.
        undone: Those in which something was undone since, whatever their state.
        left_out: Of a map with `where`: items of its list that were looked at and are not done.
    """

    total: int
    running: int
    succeeded: int
    failed: int
    cancelled: int
    undone: int = 0
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """An item of a map, or an iteration of a repeat, that began.

    Attributes:
        path: Such as "resize[12]": what `Client.get` takes as scope.
        index: From 0, among those that are done.
        place: Of an item: where it is in the list that its map goes over; the index, unless `where` leaves items out.
        output: Its result; None: none, or left out.
        undone: Something in it was undone since it began.
        output_left_out: Bytes of a result that is left out for its size; pages of one or two items leave none out.
            0: nothing is left out.
    """

    path: str
    index: int
    place: int
    state: RunState
    error: RunError | None
    created_at: datetime | None
    finished_at: datetime | None
    output: Json
    undone: bool = False
    output_left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleReport:
    """A report that came too late and changed nothing."""

    path: str
    attempt: int
    owner: str
    answer: str
    at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetails:
    """A run with its tasks, in order of creation, and the latest stale reports, oldest first.

    The tasks are the run's own, or those of the scope that was asked for; not those of scopes in it.

    Attributes:
        more_stale_reports: True: there were earlier ones, which are left out.
    """

    run: Run
    tasks: tuple[Task, ...]
    stale_reports: tuple[StaleReport, ...]
    more_stale_reports: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One entry of a run's history.

    Attributes:
        seq: Gap-free, from 1.
        type: Such as "NodeCompleted".
        at: Database time.
        path: The task concerned; empty: the run.
        attempt: The attempt concerned; 0: none.
        event: The event's fields.
        actions: What it caused.
        format: Format of `event` and `actions`.
    """

    seq: int
    type: str
    at: datetime | None
    path: str
    attempt: int
    event: Json
    actions: Json
    format: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One event of a watched run, and the run's state when the event was read."""

    event: Event
    state: RunState


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run that `Client.start_many` is to start; the fields are the arguments of `Client.start`.

    Attributes:
        workflow: Its name.
        input: A JSON value; None is null. Left out: {}.
        key: Idempotency key; None: none.
        version: The version to run; None: the deployed one.
        labels: What it can be found by besides, by name.
        request_id: UUID, made with this value: giving the same value to `start_many` again starts nothing twice.
    """

    workflow: str
    input: JsonInput = field(default_factory=dict[str, JsonInput])
    key: str | None = field(default=None, kw_only=True)
    version: int | None = field(default=None, kw_only=True)
    labels: Mapping[str, str] = field(default_factory=dict[str, str], kw_only=True)
    request_id: str = field(default_factory=new_request_id, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The run that `Client.start` or an item of `Client.start_many` names.

    Attributes:
        existed: True when the run was there already, under the same key.
        version: The version it runs.
    """

    run_id: str
    existed: bool
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended."""

    run_id: str
    state: RunState
    output: Json
    error: RunError | None

    @property
    def succeeded(self) -> bool:
        """True when the run succeeded."""
        return self.state is RunState.SUCCEEDED


@dataclass(frozen=True, slots=True, kw_only=True)
class ReopenedChild:
    """A run that a subflow node takes up again, as far as its parent knows it.

    Attributes:
        path: Of the node.
        run_id: The run.
        workflow: Its workflow.
        nodes: Paths of its nodes that failed; empty: it was stopped.
    """

    path: str
    run_id: str
    workflow: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoneNode:
    """A node that was undone.

    Attributes:
        path: Of the node.
        by: Path of the node that undid it.
        state: Of that one; unless SUCCEEDED, it may have been undone.
    """

    path: str
    by: str
    state: TaskState


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingEffect:
    """What a node did and nothing has undone.

    Attributes:
        path: Of the node; of what is in a map or repeat: of that.
        count: How often it was done; of a map or repeat that goes on: among the items that are taken up at once.
    """

    path: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetriedItems:
    """Which items of a map, or iterations of a repeat, run again. Each is counted once.

    Attributes:
        path: Of the map or repeat.
        anew: It begins anew: its list is made again, and nothing but `total` is told.
        total: Items that were not left out; of a repeat, and of one that begins anew, those that had begun.
        failed: That failed, and run again.
        stopped: That were stopped, and go on.
        undone: That run again because something in them was undone.
        chosen: That run again only because nodes in them were named.
        unbegun: That were not begun, and follow, as far as `where` holds for them.
        kept: That stay as they are.
        paths: Of the first 20 that run again or go on.
    """

    path: str
    anew: bool
    total: int
    failed: int
    stopped: int
    undone: int
    chosen: int
    unbegun: int
    kept: int
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewChild:
    """A subflow node that starts another run than it had.

    Attributes:
        path: Of the node.
        workflow: That it starts.
    """

    path: str
    workflow: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPlan:
    """What a retry redoes.

    Attributes:
        chosen: Nodes that start again at once.
        reset: Nodes reachable from them that were reached before.
        kept: Nodes that keep their result, whatever it is; nodes that undo others are in none of the three.
        epoch: The run's epoch after the retry; with `dry_run`, what it would be.
        children: Runs of subflow nodes that go on, where these ask for them at once.
        runs_finally: What runs at the end of the run runs again when it ends anew.
        undone: Of the chosen and reset nodes, those whose effect was undone: it is wanted anew.
        standing: Of them, those that are done once more though what they did before stands.
        items: Maps and repeats that had begun: among them, and in items that are taken up at once.
        new_children: Subflow nodes that start another run: among them, and in items that are taken up at once.
    """

    chosen: tuple[str, ...]
    reset: tuple[str, ...]
    kept: tuple[str, ...]
    epoch: int
    children: tuple[ReopenedChild, ...] = ()
    runs_finally: bool = False
    undone: tuple[UndoneNode, ...] = ()
    standing: tuple[StandingEffect, ...] = ()
    items: tuple[RetriedItems, ...] = ()
    new_children: tuple[NewChild, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Signalled:
    """Where a signal is.

    Attributes:
        run_id: The run that has it.
        seq: Sequence number of its event.
        existed: False when the run was started for it.
        is_repeat: Of a signal with an id: it was recorded before, perhaps by an earlier try of this call, and not now.
        differs: Of a repeat: what was recorded has another payload, and that of this call was left out.
    """

    run_id: str
    seq: int
    existed: bool = True
    is_repeat: bool = False
    differs: bool = False
