"""Every service of Headway on one machine: `from headway.cli.stack import Stack`."""

from headway.cli.stack.folder import FolderTaken, FolderUnusable
from headway.cli.stack.migrating import MigrationFailed, migrate
from headway.cli.stack.runner import Stack, StackFault
from headway.cli.stack.servers import ServerMissing
from headway.cli.stack.shape import PortTaken, Shape

__all__ = [
    "FolderTaken",
    "FolderUnusable",
    "MigrationFailed",
    "PortTaken",
    "ServerMissing",
    "Shape",
    "Stack",
    "StackFault",
    "migrate",
]
