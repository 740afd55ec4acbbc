"""Read the answers of the HTTP API: whole series, or the error that says whose fault it is.

Rule 1: an answer that is wrong in form or in part is no answer: `Unavailable`.
Rule 2: words of the server that reach a person are short, on one line, and without addresses.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from davylamp.errors import DavylampError, SpecError, Unavailable

_LONGEST_WORDS: Final = 300
_MOST_WARNINGS: Final = 3
_ADDRESS: Final = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://\S+", re.IGNORECASE | re.ASCII)
#: Errors of the API that say nothing about the query (web/api/v1 of Prometheus, and its kin).
_TRANSIENT: Final = frozenset({"timeout", "canceled", "internal", "unavailable", "too_many_requests", "not_acceptable"})
#: Thanos reports a store that it cannot reach as a query that it cannot execute.
_PEER_LOST: Final = re.compile(
    r"rpc error|code = Unavailable|connection refused|deadline exceeded|i/o timeout|no such host|unexpected EOF"
)


@dataclass(frozen=True, slots=True)
class Series:
    """One series of a range of raw samples, not checked any further.

    Parameters
    ----------
    labels
        All of them, ``__name__`` included.
    values
        Pairs of time and text of plain samples, as JSON gave them.
    histograms
        Pairs of time and histogram of native histogram samples, as JSON gave them.
    """

    labels: Mapping[str, str]
    values: Sequence[Any]
    histograms: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """All series of a complete answer, and what the server remarked."""

    series: tuple[Series, ...]
    remarks: tuple[str, ...] = ()


def read_answer(body: bytes) -> Answer:
    """Read an answer of ``/api/v1/query`` that came with status 200.

    Raises
    ------
    SpecError
        If the server refuses the query.
    Unavailable
        If it is not whole: no JSON, another form, or with warnings.
    """
    envelope = _parsed(body)
    status = envelope.get("status")
    if status == "error":
        raise refusal(200, body)
    if status != "success":
        raise Unavailable("answers in a form that is not Prometheus' (no status)")
    _refuse_partial(envelope)
    data = envelope.get("data")
    if not isinstance(data, dict):
        raise Unavailable("answers in a form that is not Prometheus' (no data)")
    kind, result = data.get("resultType"), data.get("result")
    if not isinstance(kind, str) or kind not in {"matrix", "vector"} or not isinstance(result, list):
        raise Unavailable(f"answers with the result type {bounded(repr(kind), 40)} where a matrix was asked for")
    infos = envelope.get("infos")
    remarks = tuple(bounded(str(info)) for info in infos[:_MOST_WARNINGS]) if isinstance(infos, list) else ()
    return Answer(tuple(_series(entry) for entry in result), remarks)


def refusal(status: int, body: bytes) -> DavylampError:
    """Return the error that an answer other than success stands for.

    Parameters
    ----------
    status
        HTTP status.
    body
        What came with it, perhaps not JSON, perhaps cut off.
    """
    try:
        envelope: Mapping[str, Any] = _parsed(body)
    except Unavailable:
        envelope = {}
    words, kind = (value if isinstance(value := envelope.get(key), str) else "" for key in ("error", "errorType"))
    said = f": {bounded(words)}" if words.strip() else ""
    if status in {401, 403}:
        return SpecError(f"refuses the credentials ({status}): put them right in prometheus.auth{said}")
    if status == 404:
        return SpecError(f"has no Prometheus API at its address (404): put prometheus.address right{said}")
    about_the_query = status == 200 or (400 <= status < 500 and status not in {408, 425, 429, 499})
    transient = kind in _TRANSIENT or _PEER_LOST.search(words) is not None
    if about_the_query and not transient:
        return SpecError(f"refuses the query ({status}){said}")
    return Unavailable(f"answers with an error ({status}){said}")


def bounded(text: str, limit: int = _LONGEST_WORDS) -> str:
    """Return somebody else's words on one line, without addresses and not too long."""
    clean = "".join(letter if letter.isprintable() else " " for letter in _ADDRESS.sub("…", text[: 4 * limit]))
    line = " ".join(clean.split())
    return line if len(line) <= limit else f"{line[:limit]}…"


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        raise Unavailable("answers with something that is not JSON") from None
    if not isinstance(parsed, dict):
        raise Unavailable("answers in a form that is not Prometheus' (no object)")
    return parsed


def _refuse_partial(envelope: Mapping[str, Any]) -> None:
    warnings = envelope.get("warnings") or []
    if not isinstance(warnings, list):
        raise Unavailable("answers in a form that is not Prometheus' (warnings)")
    # Prometheus 2.48 to 2.53 sends remarks on the query among the warnings.
    real = [str(warning) for warning in warnings if not str(warning).startswith("PromQL info")]
    if real:
        raise Unavailable(f"answers in part only: {bounded('; '.join(real[:_MOST_WARNINGS]))}")
    if envelope.get("isPartial"):  # VictoriaMetrics' word for it
        raise Unavailable("answers in part only: a storage node is missing")


def _series(entry: Any) -> Series:
    if not isinstance(entry, dict):
        raise Unavailable("answers in a form that is not Prometheus' (a series is no object)")
    labels = entry.get("metric")
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        raise Unavailable("answers in a form that is not Prometheus' (a series without labels)")
    values, histograms = entry.get("values", []), entry.get("histograms", [])
    if not isinstance(values, list) or not isinstance(histograms, list):
        raise Unavailable("answers in a form that is not Prometheus' (a series without samples)")
    return Series(labels, values, histograms)
