from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Generator
from typing import Any

import pytest

from headway.runtime import logs, telemetry

logger = logging.getLogger("test.logs")


@pytest.fixture
def stream() -> Generator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.configure("relay", level="info", log_format="json", stream=stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_one_json_object(stream: io.StringIO) -> None:
    logger.info("published %d\nrows", 3, extra={"queue": "shipping"})

    (line,) = lines(stream)
    assert line.pop("at").endswith("Z")
    assert line == {
        "level": "info",
        "service": "relay",
        "logger": "test.logs",
        "message": "published 3\nrows",
        "queue": "shipping",
    }


async def test_bound_fields_belong_to_one_asyncio_task(stream: io.StringIO) -> None:
    async def work(run_id: str) -> None:
        with logs.bound(run_id=run_id):
            await asyncio.sleep(0)
            with logs.bound(task_id=f"{run_id}.a"):
                logger.info("at work")

    async with asyncio.TaskGroup() as group:
        group.create_task(work("r1"))
        group.create_task(work("r2"))
    logger.info("outside")

    assert [(line.get("run_id"), line.get("task_id")) for line in lines(stream)] == [
        ("r1", "r1.a"),
        ("r2", "r2.a"),
        (None, None),
    ]


def test_an_exception_comes_with_its_trace(stream: io.StringIO) -> None:
    try:
        raise ValueError("broken")
    except ValueError:
        logger.exception("failed")

    assert "ValueError: broken" in lines(stream)[0]["error"]


def test_the_trace_id_of_the_span_is_told(stream: io.StringIO) -> None:
    from opentelemetry import context

    parent = telemetry.Traceparent("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
    token = context.attach(telemetry.context_of(parent))
    try:
        logger.info("traced")
    finally:
        context.detach(token)

    assert lines(stream)[0]["trace_id"] == parent.trace_id


@pytest.mark.parametrize("value", [10**40, "\ud800", object(), {1: {2, 3}}, b"\xff"])
def test_no_value_breaks_a_line(stream: io.StringIO, value: object) -> None:
    logger.info("odd", extra={"value": value})

    assert "value" in lines(stream)[0]


def test_text_is_for_people() -> None:
    stream = io.StringIO()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        logs.configure("timers", log_format="text", stream=stream)
        with logs.bound(run_id="r1"):
            logger.warning("late")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.captureWarnings(capture=False)

    assert stream.getvalue().split()[1:] == ["WARNING", "timers", "late", "run_id=r1"]
