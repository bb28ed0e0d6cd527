"""The commands, in the order in which the help lists them."""

from headway.cli.command import Command
from headway.cli.commands.definitions import Check, Deploy, Schema
from headway.cli.commands.runs import History, List, Show, Start, Watch
from headway.cli.commands.servers import Dev, Upgrade, Work
from headway.cli.commands.steering import Cancel, Retry, Signal
from headway.cli.commands.versions import DeleteVersion, ListVersions, Rollback

COMMANDS: tuple[type[Command], ...] = (
    Dev,
    Check,
    Schema,
    Deploy,
    ListVersions,
    Rollback,
    DeleteVersion,
    Start,
    List,
    Show,
    History,
    Watch,
    Signal,
    Cancel,
    Retry,
    Work,
    Upgrade,
)
