"""The coordinator's services on one gRPC server."""

from typing import Any

import grpc

from headway.api.definitions.v1 import definitions_pb2, definitions_pb2_grpc
from headway.api.events.v1 import events_pb2, events_pb2_grpc
from headway.api.outbox.v1 import outbox_pb2, outbox_pb2_grpc
from headway.api.runs.v1 import runs_pb2, runs_pb2_grpc
from headway.api.tasks.v1 import tasks_pb2, tasks_pb2_grpc
from headway.api.timers.v1 import timers_pb2, timers_pb2_grpc
from headway.coordinator.engine.children import Children
from headway.coordinator.engine.definitions import Definitions
from headway.coordinator.engine.deleting import Deletions
from headway.coordinator.engine.engine import Engine
from headway.coordinator.engine.versions import Versions
from headway.coordinator.rpc.definitions import DefinitionsService
from headway.coordinator.rpc.internal import EventsService, OutboxService, TimersService
from headway.coordinator.rpc.reading import Reading
from headway.coordinator.rpc.runs import RunsService
from headway.coordinator.rpc.tasks import TasksService
from headway.runtime.serving import MESSAGE_LIMIT

SERVICES = tuple(
    f"{file.DESCRIPTOR.package}.{name}"
    for file in (definitions_pb2, runs_pb2, tasks_pb2, timers_pb2, events_pb2, outbox_pb2)
    for name in file.DESCRIPTOR.services_by_name
)


def register(server: grpc.aio.Server, engine: Engine, message_limit: int = MESSAGE_LIMIT) -> None:
    """Add all services to a server whose messages have at most so many bytes."""
    reading: Any = Reading(server)
    definitions = Definitions(engine)
    versions = Versions(engine)
    definitions_pb2_grpc.add_DefinitionsServiceServicer_to_server(DefinitionsService(definitions, versions), reading)
    runs = RunsService(engine, definitions, Deletions(engine), message_limit)
    runs_pb2_grpc.add_RunsServiceServicer_to_server(runs, reading)
    tasks_pb2_grpc.add_TasksServiceServicer_to_server(TasksService(engine, message_limit), reading)
    timers_pb2_grpc.add_TimersServiceServicer_to_server(TimersService(engine), reading)
    children = Children(engine, definitions, runs.starts)
    events_pb2_grpc.add_EventsServiceServicer_to_server(EventsService(engine, children), reading)
    outbox_pb2_grpc.add_OutboxServiceServicer_to_server(OutboxService(engine), reading)
