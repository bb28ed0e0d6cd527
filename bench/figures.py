"""The table of figures: what each means, how it is measured, and by which function."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from bench.measure import growth, idle, latency, recovery, retention, soak, starts, throughput, timers
from bench.pace import Pace, Samples
from bench.rig import BROKER, ONE, TWO, UNREAD, Rig, Setting

Measure: TypeAlias = Callable[[Rig, Pace], Awaitable[Samples]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure.

    Attributes:
        name: As it stands in the document.
        meaning: What it says, with its unit.
        how: How it is measured.
        measure: The function that measures it, maybe with others.
        on: The stack that it is measured on.
        quick: Whether `--quick` measures it.
        alone: It sets up for long, so it has a stack of its own, once, and repeats itself.
    """

    name: str
    meaning: str
    how: str
    measure: Measure
    on: Setting = ONE
    quick: bool = True
    alone: bool = False


FIGURES = (
    Figure(
        name="idle_cores",
        meaning="cores that a stack uses which has nothing to do",
        how="/proc, all processes with PostgreSQL and Redis, 20 s (`--quick`: 6 s)",
        measure=idle.idle,
    ),
    Figure(
        name="start_ms_p50",
        meaning="ms from a start to the first handler",
        how="Start called → first line of the first handler; an idle stack, one run after another",
        measure=latency.start,
    ),
    Figure(
        name="hop_ms_p50",
        meaning="ms from a handler to the next, median",
        how="last line of a handler (its Report follows) → first line of the next; one run in flight",
        measure=latency.hop,
    ),
    Figure(name="hop_ms_p99", meaning="the same, 99th percentile", how="as hop_ms_p50", measure=latency.hop),
    Figure(
        name="hop50_ms_p50",
        meaning="ms from a handler to the next, median",
        how="as hop_ms_p50, with fifty runs in flight",
        measure=latency.hop_50,
    ),
    Figure(name="hop50_ms_p99", meaning="the same, 99th percentile", how="as hop50_ms_p50", measure=latency.hop_50),
    Figure(
        name="tasks_per_s",
        meaning="tasks completed per second",
        how="the line of ten at the load where it peaks, one coordinator",
        measure=throughput.one_coordinator,
    ),
    Figure(
        name="coordinator_us_per_event",
        meaning="µs of the coordinator's CPU for each event of a history",
        how="/proc, in the stretch of tasks_per_s; events by the runs' last sequence numbers",
        measure=throughput.one_coordinator,
    ),
    Figure(
        name="wal_bytes_per_task",
        meaning="bytes of write-ahead log for each task",
        how="pg_current_wal_lsn over the stretch of tasks_per_s, which begins behind a CHECKPOINT",
        measure=throughput.one_coordinator,
    ),
    Figure(
        name="db_bytes_per_task",
        meaning="bytes by which the database has grown for each finished task",
        how="pg_database_size before and after the load of tasks_per_s, indexes and dead rows included",
        measure=throughput.one_coordinator,
    ),
    Figure(
        name="cpu_us_per_task",
        meaning="µs of CPU for each task, by kind of process",
        how="/proc, in the stretch of tasks_per_s; an object of its own in the document",
        measure=throughput.one_coordinator,
    ),
    Figure(
        name="timer_late_ms_p99",
        meaning="ms by which waits end late, 99th percentile, 1,000 due every second",
        how="due → first line of the handler behind the `wait`, which one in ten has; started before the first is due",
        measure=timers.late,
    ),
    Figure(
        name="growth_parallel",
        meaning="cost of a task among 1,000 parallel nodes into one join, by that among 10",
        how="CPU of the whole stack (steadier than time), 10,000 tasks each, 2,000 in flight",
        measure=growth.parallel,
        quick=False,
    ),
    Figure(
        name="growth_sequential",
        meaning="cost of a task in a line of 1,000, by that in a line of 10",
        how="CPU of the whole stack, 10,000 tasks each, 10 in flight",
        measure=growth.sequential,
        quick=False,
    ),
    Figure(
        name="growth_map",
        meaning="cost of an item of a map of 10,000, by that of a map of 10",
        how="CPU of the whole stack, 20,000 items each, 200 under way",
        measure=growth.maps,
        quick=False,
    ),
    Figure(
        name="recovery_s",
        meaning="s from the end of a killed worker's lease until its task is READY again, the longest of 10,000",
        how="ends of the leases by Get, LeaseExpired by GetHistory; SIGKILL, leases of 10 s",
        measure=recovery.recovery,
        quick=False,
    ),
    Figure(
        name="recovery_hop_ms_p99",
        meaning="ms from handler to handler of ten other runs meanwhile, 99th percentile",
        how="as hop_ms_p50, from the first lease's end to a second after the last task is READY",
        measure=recovery.recovery,
        quick=False,
    ),
    Figure(
        name="overload_ratio",
        meaning="throughput under ten times the load at which it peaks, as a share of the peak",
        how="one after the other on one stack; refused starts are tried again with back-off",
        measure=throughput.overload,
        quick=False,
    ),
    Figure(
        name="tasks_per_s_two",
        meaning="tasks completed per second",
        how="as tasks_per_s, with two coordinator processes and twice the runs in flight",
        measure=throughput.two_coordinators,
        on=TWO,
    ),
    Figure(
        name="tasks_per_s_broker",
        meaning="tasks completed per second",
        how="as tasks_per_s, with HEADWAY_WORKER_EAGER=false: each task through outbox, relay and broker",
        measure=throughput.by_the_broker,
        on=BROKER,
    ),
    Figure(
        name="hop_broker_ms_p50",
        meaning="ms from a handler to the next, median",
        how="as hop_ms_p50, with HEADWAY_WORKER_EAGER=false",
        measure=latency.hop_by_the_broker,
        on=BROKER,
    ),
    Figure(
        name="hop_broker_ms_p99",
        meaning="the same, 99th percentile",
        how="as hop_broker_ms_p50",
        measure=latency.hop_by_the_broker,
        on=BROKER,
    ),
    Figure(
        name="starts_per_s",
        meaning="starts answered per second, one run each",
        how="64 callers of Start at a time; no worker; then all runs are there and all are dispatched",
        measure=starts.starts,
        on=UNREAD,
    ),
    Figure(
        name="db_bytes_per_task_kept",
        meaning="bytes by which the database has grown for each finished task, its run still kept",
        how="as db_bytes_per_task, over 2,000 runs of the line with `retention: 1m`",
        measure=retention.retention,
        quick=False,
        alone=True,
    ),
    Figure(
        name="db_bytes_per_task_removed",
        meaning="the same, when retention has removed the runs: what is left on disk, free for later runs",
        how="behind the last removal and a plain VACUUM, as autovacuum makes it",
        measure=retention.retention,
        quick=False,
        alone=True,
    ),
    Figure(
        name="growth_stored",
        meaning="cost of a task with 1,000,000 finished runs stored, by that with none",
        how="CPU of both whole stacks under the load of tasks_per_s, in turn; the runs are copies of one that ran",
        measure=growth.stored,
        quick=False,
        alone=True,
    ),
    Figure(
        name="list_ms_p99",
        meaning="ms of a page of 50 runs, 99th percentile, with 1,000,000 finished runs stored",
        how="List by four filters in turn, one matching nothing; 200 calls in a row, before growth_stored",
        measure=growth.stored,
        quick=False,
        alone=True,
    ),
    Figure(
        name="show_ms_p99",
        meaning="ms of a run with its tasks, 99th percentile, with 1,000,000 finished runs stored",
        how="Get; 200 calls in a row, before growth_stored",
        measure=growth.stored,
        quick=False,
        alone=True,
    ),
    Figure(
        name="why_ms_p99",
        meaning="ms of why a run stands where it does, 99th percentile, with 1,000,000 finished runs stored",
        how="Explain; 200 calls in a row, before growth_stored",
        measure=growth.stored,
        quick=False,
        alone=True,
    ),
    Figure(
        name="soak",
        meaning="memory of each service over time, and the most dead rows by table; fails when either grows too far",
        how="only with `--soak MINUTES`: 1,000 tasks per second; at most 5 % along the line fitted behind the first "
        "third; dead: a fifth of the table and 120,000",
        measure=soak.soak,
        quick=False,
        alone=True,
    ),
)


HEADING = ("| figure | meaning | how | where | quick |", "| --- | --- | --- | --- | --- |")


def table() -> str:
    """The figures as a table in Markdown."""
    rows = (
        f"| `{each.name}` | {each.meaning} | {each.how} | `{_place(each.measure)}` | {'' if each.quick else 'no'} |"
        for each in FIGURES
    )
    return "\n".join((*HEADING, *rows))


def _place(measure: Measure) -> str:
    """Module and function: where to read on."""
    return f"{measure.__module__.removeprefix('bench.')}.{measure.__qualname__}"
