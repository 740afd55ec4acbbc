"""Answers read as values: one module a format, chosen by path and content unless the rollout says which.

Rule 1: nothing here trusts an answer; whatever it holds leads to a value of `Reading`, in bounded time and memory.
Rule 2: numbers stay what they are; what a type cannot hold is unreadable, never rounded in silence.
"""

from davylamp.shadow.exchange import Answer, Call
from davylamp.shadow.formats.choosing import Reader, reader_of
from davylamp.shadow.formats.reading import Reading, Unreadable, UnreadableError
from davylamp.shadow.task import Rules


def read_both(call: Call, first: Answer, second: Answer, rules: Rules) -> tuple[Reading, Reading]:
    """Read two answers to a call in the format of the first.

    Parameters
    ----------
    call
        The request.
    first, second
        Answers with a status of success, the baseline's first.
    rules
        Those of the rollout.
    """
    reader = reader_of(call, first, rules)
    return _read(reader, first, rules), _read(reader, second, rules)


def _read(reader: Reader, answer: Answer, rules: Rules) -> Reading:
    try:
        return reader(answer, rules)
    except UnreadableError as error:
        return Unreadable(error.fault)
