"""The commands, in the order in which the help lists them."""

from headway.cli.command import Command
from headway.cli.commands.definitions import Check, Deploy, Schema
from headway.cli.commands.many import Delete
from headway.cli.commands.pausing import Pause, Resume, Skip
from headway.cli.commands.runs import History, List, Show, Start, Watch
from headway.cli.commands.servers import Dev, Upgrade, Work
from headway.cli.commands.steering import Cancel, Retry, Signal
from headway.cli.commands.testing import Test
from headway.cli.commands.versions import DeleteVersion, ListVersions, Rollback
from headway.cli.commands.why import Why

COMMANDS: tuple[type[Command], ...] = (
    Dev,
    Check,
    Test,
    Schema,
    Deploy,
    ListVersions,
    Rollback,
    DeleteVersion,
    Start,
    List,
    Show,
    Why,
    History,
    Watch,
    Signal,
    Pause,
    Resume,
    Skip,
    Cancel,
    Retry,
    Delete,
    Work,
    Upgrade,
)
