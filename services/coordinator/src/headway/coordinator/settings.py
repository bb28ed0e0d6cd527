"""What the coordinator reads from the environment."""

from dataclasses import dataclass

from headway.runtime.serving import MESSAGE_LIMIT
from headway.runtime.settings import DatabaseSettings, ProcessSettings, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings(ProcessSettings, DatabaseSettings):
    """The coordinator's settings."""

    listen: str = setting("HEADWAY_COORDINATOR_LISTEN", default="127.0.0.1:7710", meaning="host:port it listens on")
    connections: int = setting(
        "HEADWAY_COORDINATOR_CONNECTIONS", default=16, minimum=2, maximum=200, meaning="most connections to PostgreSQL"
    )
    message_limit: int = setting(
        "HEADWAY_MESSAGE_LIMIT",
        default=MESSAGE_LIMIT,
        unit="bytes",
        minimum=4 * 1024 * 1024,
        meaning="largest gRPC message, in and out",
    )
