"""The world of tests/rpc: a real coordinator on a real database."""

from tests.rpc.world import database, lasting_database_url, world

__all__ = ["database", "lasting_database_url", "world"]
