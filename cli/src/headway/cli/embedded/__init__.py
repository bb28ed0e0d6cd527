"""PostgreSQL and Redis for `headway dev` and for tests: from wheels, without root, Docker or anything installed.

    with EmbeddedPostgres(folder / "postgres") as postgres, EmbeddedRedis(folder / "redis") as redis:
        ...  # postgres.url, redis.url

Both keep their data in their folder, listen on 127.0.0.1 only, ask for a password made at the first start, and are as
durable as the real ones (PostgreSQL with its defaults; Redis with an append-only file, synced every second). A folder
has one owner at a time (a lock says so). A server ends with its owner, even one that was killed: a small guardian
process watches over it; and should the guardian be killed too, the next start on the folder ends the orphan first. No
other process is ever signalled. Why these wheels: docs/adr/0002-embedded-servers.md.
"""

from headway.cli.embedded._postgres import EmbeddedPostgres
from headway.cli.embedded._redis import EmbeddedRedis
from headway.cli.embedded._server import EmbeddedServerError

__all__ = ["EmbeddedPostgres", "EmbeddedRedis", "EmbeddedServerError"]
