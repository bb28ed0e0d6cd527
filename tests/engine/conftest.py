"""The session's database, and coordinators on it."""

from tests.rpc.world import database, lasting_database_url, world

__all__ = ["database", "lasting_database_url", "world"]
