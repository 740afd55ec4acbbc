"""A few disagreeing pairs, kept to be looked at: a uniform sample of all, redacted before it is kept.

Rule 1: nothing is kept unless the rollout says so, and nothing is kept that could not be redacted.
Rule 2: of headers only the type of the content is kept; of bodies no more than their beginning.
"""

import base64
import codecs
from collections.abc import Callable
from math import isfinite
from random import Random
from typing import Any, Final

from davylamp.shadow.comparison import Comparison
from davylamp.shadow.exchange import Answer, Call, Outcome
from davylamp.shadow.task import Capture

#: Returns a body with what these JSONPaths select blotted out; empty if it cannot.
Redact = Callable[[bytes, tuple[str, ...]], bytes]
LARGEST_PART: Final = 32 * 2**10
_MOST_PAIRS: Final = 200
#: Of a header or a path.
_LONGEST_WORD: Final = 256


def keep_nothing(body: bytes, paths: tuple[str, ...]) -> bytes:
    """Redact by leaving nothing."""
    del body, paths
    return b""


class Reservoir:
    """Keeps pairs of one rollout.

    Parameters
    ----------
    capture
        How many, and what is blotted out.
    redact
        Blots it out.
    randomness
        Chooses.
    """

    def __init__(self, capture: Capture, redact: Redact, randomness: Random) -> None:
        self._capacity = min(capture.pairs, _MOST_PAIRS)
        self._paths = capture.redact
        self._redact = redact
        self._random = randomness
        self._offered = 0
        self._kept: dict[int, dict[str, Any]] = {}

    @property
    def is_on(self) -> bool:
        """Whether anything is kept at all."""
        return self._capacity > 0

    @property
    def pairs(self) -> list[dict[str, Any]]:
        """What is kept now."""
        return list(self._kept.values())

    def place(self) -> int | None:
        """Return where one more pair is to be kept, None for nowhere: each is kept with the same probability.

        This is Vitter's algorithm R.
        """
        if not self.is_on:
            return None
        self._offered += 1
        if self._offered <= self._capacity:
            return self._offered - 1
        place = self._random.randrange(self._offered)
        return place if place < self._capacity else None

    def keep(self, place: int, view: dict[str, Any]) -> None:
        """Keep a pair, as `view` shows it, instead of what was in its place."""
        self._kept[place] = view

    def view(self, call: Call, outcomes: tuple[Outcome, Outcome], comparison: Comparison) -> dict[str, Any]:
        """Return what may be kept of a pair; this changes nothing and takes its time."""
        return {
            "request": {
                "protocol": call.protocol.value,
                "method": call.method,
                # A query may hold anything.
                "path": call.target.partition("?")[0][:_LONGEST_WORD],
                "id": call.header("x-request-id")[:_LONGEST_WORD],
                **self._content(call.header("content-type"), call.body),
            },
            "baseline": self._outcome(outcomes[0]),
            "candidate": self._outcome(outcomes[1]),
            "kind": comparison.kind.value,
            "differences": sorted(difference.value for difference in comparison.differences),
            "measures": {measure.value: value for measure, value in comparison.measures.items() if isfinite(value)},
        }

    def _outcome(self, outcome: Outcome) -> dict[str, Any]:
        result = outcome.result
        if isinstance(result, Answer):
            seen = {"status": result.status, **self._content(result.header("content-type"), result.body)}
        else:
            seen = {"failure": result.value}
        return {**seen, "seconds": outcome.seconds}

    def _content(self, content_type: str, body: bytes) -> dict[str, Any]:
        kept = self._redact(body, self._paths)
        part = kept[:LARGEST_PART]
        whole = len(kept) == len(part)
        content: dict[str, Any] = {"contentType": content_type[:_LONGEST_WORD], "size": len(body), "whole": whole}
        try:
            # A character that was cut through is left out.
            return {**content, "text": codecs.getincrementaldecoder("utf-8")().decode(part, final=whole)}
        except UnicodeDecodeError:
            return {**content, "base64": base64.b64encode(part).decode()}
