"""Two answers to the same request, compared: one entry point, and one module for each kind of answer.

Rule 1: what cannot be compared says so, with a reason; it is never equal.
Rule 2: a baseline that fails says nothing about the candidate; a candidate that fails alone does.
Rule 3: no answer, whatever it holds, raises.
"""

from dataclasses import replace
from http import HTTPStatus
from typing import Final, assert_never

import numpy as np

from davylamp.shadow.comparing.documents import compare_documents
from davylamp.shadow.comparing.embeddings import compare_embeddings
from davylamp.shadow.comparing.findings import Findings
from davylamp.shadow.comparing.tensors import compare_tensors
from davylamp.shadow.comparing.texts import compare_texts
from davylamp.shadow.comparison import Comparison, Difference, Kind, Unread
from davylamp.shadow.exchange import Answer, Call, Failure, Outcome, Protocol
from davylamp.shadow.formats import read_both
from davylamp.shadow.formats.reading import (
    Document,
    Embeddings,
    Fault,
    Raw,
    Readable,
    Reading,
    Tensors,
    Texts,
    Unreadable,
)
from davylamp.shadow.task import Notion, Rules

_RESOURCE_EXHAUSTED: Final = 8
_BASELINE_FAILED: Final = Comparison(Kind.STATUS, unread=Unread.BASELINE_FAILED)
_THROTTLED: Final = Comparison(Kind.STATUS, unread=Unread.THROTTLED)
_CANDIDATE_FAILED: Final = Comparison(Kind.STATUS, differences=frozenset({Difference.STATUS}), disagrees=True)


def compare(call: Call, first: Outcome, second: Outcome, rules: Rules) -> Comparison:
    """Compare what became of the same request at either variant.

    Parameters
    ----------
    call
        The request.
    first
        What became of it at the baseline.
    second
        What became of it at the candidate; at the baseline again, where its noise is measured.
    rules
        Those of the rollout; its paths are JSONPaths.
    """
    if any(_throttled(outcome) for outcome in (first, second)):
        return _THROTTLED
    match first.result, second.result:
        case Answer(succeeded=True) as before, Answer(succeeded=True) as after:
            with np.errstate(all="ignore"):
                return _compare_readings(*read_both(call, before, after, rules), rules)
        case Answer(succeeded=True), Answer() | Failure():
            return _CANDIDATE_FAILED
        case _:
            return _BASELINE_FAILED


def _throttled(outcome: Outcome) -> bool:
    if not isinstance(outcome.result, Answer):
        return False
    asks_for_less = _RESOURCE_EXHAUSTED if outcome.result.protocol is Protocol.GRPC else HTTPStatus.TOO_MANY_REQUESTS
    return outcome.result.status == asks_for_less


def _compare_readings(first: Reading, second: Reading, rules: Rules) -> Comparison:
    if isinstance(first, Unreadable):
        match first.fault:
            case Fault.FORM:
                return Comparison(Kind.RAW, unread=Unread.BASELINE_UNREADABLE)
            case Fault.BOUND:
                return Comparison(Kind.RAW, unread=Unread.BOUND)
            case Fault.FAILED:
                return _BASELINE_FAILED
            case never:
                assert_never(never)
    if isinstance(second, Unreadable) and second.fault is Fault.FAILED:
        return _CANDIDATE_FAILED
    if rules.notion is Notion.EXACT:
        rules = replace(rules, absolute=0.0, relative=0.0)
    return _findings(first, second, rules).comparison(_kind(first), rules.notion)


def _findings(first: Readable, second: Reading, rules: Rules) -> Findings:
    match first, second:
        case Tensors(), Tensors():
            return compare_tensors(first, second, rules)
        case Texts(), Texts():
            return compare_texts(first, second, rules)
        case Embeddings(), Embeddings():
            return compare_embeddings(first, second, rules)
        case Document(), Document():
            return compare_documents(first, second, rules)
        case Raw(), Raw():
            return Findings({Difference.BYTES} if first.body != second.body else set())
        case _:  # another kind of answer than the baseline's, or none
            return Findings({Difference.STRUCTURE})


def _kind(reading: Readable) -> Kind:
    match reading:
        case Tensors():
            return Kind.TENSORS
        case Texts():
            return Kind.TEXT
        case Embeddings():
            return Kind.EMBEDDINGS
        case Document():
            return Kind.JSON
        case Raw():
            return Kind.RAW
        case never:
            assert_never(never)
