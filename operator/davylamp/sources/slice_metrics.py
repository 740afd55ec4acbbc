"""Where pairs by slice are found: labelled ones at the labels service, decisions at the comparator.

Both run in the namespace of the rollout; the label ``rollout`` says whose a series is, ``attempt`` of which try.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from davylamp.core.model import Variant
from davylamp.core.plan import Gate, SignalKind
from davylamp.core.reading import Matcher, MatchKind, Selector, SignalQuery
from davylamp.core.slice_gates import decided, labelled, signals_of, sliced_of
from davylamp.core.slices import WHOLE

_PAIRS: Final = "davylamp_label_pairs_total"
_DECISIONS: Final = "davylamp_shadow_slice_pairs_total"
#: What labelled pairs come to, as the core and as the metric say it.
_RESULTS: Final = {"both": "both_right", "lost": "baseline_right", "won": "candidate_right"}


def slice_queries(rollout: str, attempt: str, gates: Iterable[Gate]) -> tuple[SignalQuery, ...]:
    """Return what is read of slices.

    Parameters
    ----------
    rollout
        Its name.
    attempt
        Under which name its pairs are counted now, see `davylamp.core.slice_evidence.served_as`.
    gates
        Those on slices.
    """
    chosen = tuple(gates)
    if not chosen:
        return ()
    wanted = {name for gate in chosen for name in signals_of(gate)}
    labels = {WHOLE, *(sliced_of(gate).slice.label for gate in chosen)}
    ours = {"rollout": rollout, "attempt": attempt}
    found = (query for label in sorted(labels) for query in _of_slice(label, ours))
    # How many labels have come in all is asked for whatever the gates look at.
    return tuple(query for query in found if query.gate in wanted or query.gate == labelled(WHOLE, "lost"))


def _of_slice(label: str, ours: dict[str, str]) -> Iterator[SignalQuery]:
    matcher = Matcher("slice", MatchKind.EQUAL, label)
    by_label = {Variant.CANDIDATE: "positive", Variant.BASELINE: "negative"}
    sides = {variant: {**ours, "label": text} for variant, text in by_label.items()}
    for name, result in _RESULTS.items():
        events = Selector(_PAIRS, (matcher, Matcher("result", MatchKind.EQUAL, result)))
        yield _query(labelled(label, name), events, Selector(_PAIRS, (matcher,)), sides)
    sides = {variant: {**ours, "baseline": text} for variant, text in by_label.items()}
    changed = Selector(_DECISIONS, (matcher, Matcher("changed", MatchKind.EQUAL, "true")))
    yield _query(decided(label), changed, Selector(_DECISIONS, (matcher,)), sides)


def _query(name: str, events: Selector, total: Selector, variants: dict[Variant, dict[str, str]]) -> SignalQuery:
    return SignalQuery(name, SignalKind.COUNTER, (events,), (total,), variants=variants, awaited=False)
