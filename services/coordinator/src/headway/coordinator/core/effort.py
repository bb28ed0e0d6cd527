"""What one decision may compute: counted, so that the same rows and event always come to the same end.

Nothing else is decided while a decision is under way, and the database takes its locks back after a few seconds. Limits
on each expression do not help where one decision evaluates thousands of them.
"""

DECISION_STEPS = 8_000_000  # half a second, or less
BYTES_A_STEP = 16  # of JSON that is read or written
SMALL = 1_024  # bytes of JSON whose parts are not counted
SMALL_BYTES_A_STEP = 2  # of such, when it is decoded, whatever its parts are
SCHEMA_STEPS = 32  # for each check that a schema asks for


class TooMuchToDecide(Exception):
    """One decision would have to compute more than any may."""

    reason = "DECISION_TOO_LARGE"

    def __init__(self) -> None:
        super().__init__(
            f"one decision may compute at most {DECISION_STEPS:,} steps, and what the nodes before this one computed "
            "in the same decision left too few; put a `wait` or a node for a worker between them, compute this in a "
            "python node, or go through shorter lists"
        )


def decoding_steps(raw: bytes) -> int:
    """Steps that decoding takes: small values take longer than their bytes tell, maps and lists the most."""
    size = len(raw)
    if size < SMALL:
        return size // SMALL_BYTES_A_STEP
    inner = raw.count(b"[") + raw.count(b"{")
    return size // BYTES_A_STEP + raw.count(b",") * 3 // 4 + raw.count(b":") + inner * 2


class Effort:
    """The steps that a decision has left."""

    __slots__ = ("_given", "_left", "_read")

    def __init__(self, steps: int = DECISION_STEPS) -> None:
        """Begin with so many."""
        self._given = self._left = steps
        self._read: set[object] = set()

    @property
    def is_half_spent(self) -> bool:
        """True: what can be left to another decision had better be."""
        return self._left < DECISION_STEPS // 2

    @property
    def steps(self) -> int:
        """What was spent."""
        return self._given - self._left

    def spend(self, steps: int) -> None:
        """Take steps away before the work is done; what there is not enough left for takes none.

        Raises:
            TooMuchToDecide: there are not enough left.
        """
        if steps > self._left:
            raise TooMuchToDecide
        self._left -= steps

    def spent(self, steps: int) -> None:
        """Take steps away for work that was done.

        Raises:
            TooMuchToDecide: there were not enough left; now there are none.
        """
        self._left -= steps
        if self._left < 0:
            raise TooMuchToDecide

    def spend_bytes(self, size: int) -> None:
        """Take away what so much JSON costs. Raises TooMuchToDecide."""
        self.spent(size // BYTES_A_STEP)

    def spend_decoding(self, raw: bytes) -> None:
        """Take away what decoding this JSON costs. Raises TooMuchToDecide."""
        self.spend(decoding_steps(raw))

    def decode(self, key: object, raw: bytes) -> None:
        """Take away what decoding a payload costs: once, however often it is read. Raises TooMuchToDecide."""
        if key not in self._read:
            self.spend(decoding_steps(raw))
            self._read.add(key)
