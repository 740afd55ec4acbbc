"""Where the comparator's counters of shadow pairs are found.

The comparator runs in the namespace of the rollout, so its series show the namespace by the label of its pod, as those
of model servers do; the label ``rollout`` says whose they are, and ``pair`` whether the candidate or, for the noise
floor, the baseline itself gave the second answer.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from davylamp.core.model import Variant
from davylamp.core.plan import Gate, SignalKind
from davylamp.core.reading import Matcher, MatchKind, Selector, SignalQuery
from davylamp.core.shadow_gates import MIRRORED, edge_text, moves_of
from davylamp.errors import SpecError

_PREFIX: Final = "davylamp_shadow_"
#: Counters of events and of all pairs, by gate.
_SHARES: Final[Mapping[str, tuple[str, str]]] = {
    "disagreement": ("disagreements_total", "pairs_total"),
    "overNoise": ("disagreements_total", "pairs_total"),
    "statusMismatch": ("status_mismatches_total", "pairs_total"),
    "pairedLatency": ("slower_total", "timed_pairs_total"),
}
#: What moves are counted of, and the counter of all, by gate.
_MOVES: Final[Mapping[str, tuple[str, str]]] = {
    "scoreShift": ("score", "scored_total"),
    "confidence": ("confidence", "confident_total"),
}


def shadow_queries(rollout: str, gates: Iterable[Gate]) -> tuple[SignalQuery, ...]:
    """Return what is read of the comparator for a rollout while requests are mirrored.

    Parameters
    ----------
    rollout
        Its name.
    gates
        Those on shadow traffic.

    Raises
    ------
    SpecError
        If the comparator counts nothing for a gate.
    """
    found = [query for gate in gates for query in _of_gate(rollout, gate)]
    return (*found, _arrivals(rollout)) if found else ()


def _of_gate(rollout: str, gate: Gate) -> Iterator[SignalQuery]:
    pairs = {variant: {"rollout": rollout, "pair": variant.value.lower()} for variant in Variant}
    if gate.kind is SignalKind.SHADOW_MOVES and gate.name in _MOVES:
        what, total = _MOVES[gate.name]
        for name, edge, move in moves_of(gate):
            events = _counter(f"{what}_{move}_total", Matcher("edge", MatchKind.EQUAL, edge_text(edge)))
            yield SignalQuery(name, SignalKind.COUNTER, (events,), (_counter(total),), variants=pairs)
    elif gate.kind is not SignalKind.SHADOW_MOVES and gate.name in _SHARES:
        events, all_pairs = (_counter(name) for name in _SHARES[gate.name])
        yield SignalQuery(gate.name, SignalKind.COUNTER, (events,), (all_pairs,), variants=pairs)
    else:
        raise SpecError(f"the comparator counts nothing for a gate {gate.name} of kind {gate.kind}")


def _arrivals(rollout: str) -> SignalQuery:
    """Return what counts the mirrored requests that arrived and were sampled, against those that were not."""
    outcomes = {Variant.CANDIDATE: "Sampled", Variant.BASELINE: "NotSampled"}
    variants = {variant: {"rollout": rollout, "outcome": outcome} for variant, outcome in outcomes.items()}
    return SignalQuery(MIRRORED, SignalKind.COUNTER, total=(_counter("requests_total"),), variants=variants)


def _counter(name: str, *matchers: Matcher) -> Selector:
    return Selector(f"{_PREFIX}{name}", matchers)
