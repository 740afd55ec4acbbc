"""How a command ends, and what is said when it fails."""

from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """What the shell is told; scripts may rely on it."""

    #: It was done; a rollout that was waited for is promoted.
    OK = 0
    #: The rollout was rolled back.
    ROLLED_BACK = 1
    #: The command, a manifest or the rollout's spec is wrong: a person must change something.
    WRONG = 2
    #: The rollout is not decided yet, and the time is over.
    UNDECIDED = 3
    #: The API server cannot be reached, or there is no way to know it.
    UNREACHABLE = 4
    #: The API server answers, and what was asked is not there or not allowed.
    REFUSED = 5


MEANINGS: Final = {
    ExitCode.OK: "done; a rollout that was waited for is promoted",
    ExitCode.ROLLED_BACK: "the rollout was rolled back",
    ExitCode.WRONG: "the command, a manifest or the spec is wrong: a person must change something",
    ExitCode.UNDECIDED: "the rollout is not decided yet, and the time is over (or --no-watch was given)",
    ExitCode.UNREACHABLE: "the API server cannot be reached, or the kubeconfig does not lead to one",
    ExitCode.REFUSED: "the API server answers, and what was asked is not there or not allowed",
}


class FailureError(Exception):
    """The command cannot do what it was asked for.

    Parameters
    ----------
    text
        What is wrong, where, and what to do.
    code
        What the shell is told.
    """

    def __init__(self, text: str, code: ExitCode) -> None:
        super().__init__(text)
        self.code = code
