"""`python -m headway.coordinator [serve | migrate | check | schema]`: the coordinator's composition root."""

import argparse
import asyncio
import json
import logging
import os
import sys
from dataclasses import asdict
from datetime import timedelta
from functools import partial

from headway.coordinator.core.compiler import compile_workflow, hold_together
from headway.coordinator.core.compiler.json_schema import json_schema
from headway.coordinator.engine.engine import Engine
from headway.coordinator.rpc import server
from headway.coordinator.settings import CoordinatorSettings
from headway.coordinator.store.attending import connect_listener
from headway.coordinator.store.errors import STORE_ERRORS
from headway.coordinator.store.migrate import SchemaChanged, SchemaTooNew, fault_of_schema, migrate
from headway.coordinator.store.pool import Pool, open_pool
from headway.coordinator.zones import zone_names
from headway.runtime.process import run_service
from headway.runtime.serving import serve
from headway.runtime.settings import DatabaseSettings, SettingsError, load

RETRY_SECONDS = 1.0
_log = logging.getLogger(__name__)


async def _serve(settings: CoordinatorSettings, drain: asyncio.Event) -> None:
    pool = await _open(settings, drain)
    if pool is None:
        return
    engine = Engine(pool, connect_listener=partial(connect_listener, settings.database_url))
    await engine.start()
    try:
        async with serve(
            settings.listen,
            services=server.SERVICES,
            register=lambda grpc_server: server.register(grpc_server, engine, settings.message_limit),
            message_limit=settings.message_limit,
            grace=timedelta(seconds=5),
        ) as serving:
            _log.info("serving", extra={"port": serving.port})
            await drain.wait()
    finally:
        await engine.stop()
        await asyncio.wait_for(pool.close(), timeout=5)


async def _open(settings: CoordinatorSettings, drain: asyncio.Event) -> "Pool | None":
    """Wait for a database with a schema; None: told to drain meanwhile."""
    while not drain.is_set():
        try:
            pool = await open_pool(settings.database_url, size=settings.connections)
            if not (fault := await fault_of_schema(pool)):
                return pool
            await pool.close()
            _log.error("the database cannot be used: %s", fault)
        except STORE_ERRORS as error:
            _log.warning("the database cannot be reached: %s", error)
        try:
            await asyncio.wait_for(drain.wait(), RETRY_SECONDS)
        except TimeoutError:
            continue
    return None


def _migrate() -> int:
    try:
        settings = load(DatabaseSettings, os.environ)
        applied = asyncio.run(migrate(settings.database_url))
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    except (*STORE_ERRORS, SchemaTooNew, SchemaChanged) as error:
        print(f"the database was not upgraded: {error}", file=sys.stderr)
        return 1
    print(f"applied migrations: {', '.join(map(str, applied)) or 'none, the schema is up to date'}")
    return 0


def _check(named: list[tuple[str, str]]) -> dict[str, object]:
    """What is wrong with workflow files that belong together, by their names and texts."""
    sources = [source for _, source in named]
    results = hold_together(sources, [compile_workflow(source, zone_names()) for source in sources])
    return {
        "files": [
            {
                "file": file,
                "workflow": result.plan.workflow if result.plan is not None else "",
                "faults": [asdict(fault) for fault in result.faults],
            }
            for (file, _), result in zip(named, results, strict=True)
        ]
    }


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m headway.coordinator", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("serve", help="serve until SIGTERM (the default)")
    commands.add_parser("migrate", help="bring the database's schema up to date")
    commands.add_parser("check", help="compile pairs of file and text: JSON in, JSON out")
    commands.add_parser("schema", help="print the JSON Schema of the workflow language")
    arguments = parser.parse_args()
    if arguments.command == "check":
        print(json.dumps(_check(json.load(sys.stdin))))
        return 0
    if arguments.command == "schema":
        print(json.dumps(json_schema(), ensure_ascii=False, indent=2))
        return 0
    if arguments.command == "migrate":
        return _migrate()
    return run_service("coordinator", CoordinatorSettings, _serve)


if __name__ == "__main__":
    sys.exit(main())
