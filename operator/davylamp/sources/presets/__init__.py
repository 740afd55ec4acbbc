"""Where errors and latency are found, by whose metrics carry them: one module each, and one line here."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from davylamp.core.model import Variant
from davylamp.core.plan import SignalKind
from davylamp.core.reading import SignalQuery
from davylamp.errors import SpecError
from davylamp.sources.counter_selector import parse_selector
from davylamp.sources.presets.envoy import ENVOY
from davylamp.sources.presets.mlserver import MLSERVER
from davylamp.sources.presets.preset import OwnCounter, Preset, Side

__all__ = ["PRESETS", "OwnCounter", "Preset", "Side", "queries"]

#: By the word in ``signals.preset``; the contract test runs over all of them.
PRESETS: Final[Mapping[str, Preset]] = MappingProxyType(
    {
        "envoy": ENVOY,
        "mlserver": MLSERVER,
    }
)


def queries(
    preset: str, metrics: Iterable[OwnCounter], namespace: str, sides: Mapping[Variant, Side]
) -> tuple[SignalQuery, ...]:
    """Return all that is read for a rollout: errors, latency, and its own counters.

    Parameters
    ----------
    preset
        A key of `PRESETS`.
    metrics
        The rollout's own signals.
    namespace
        Of the rollout.
    sides
        Both variants.

    Raises
    ------
    SpecError
        If there is no such preset or a selector cannot be used.
    """
    if preset not in PRESETS:
        raise SpecError(f"signals.preset {preset!r} is not known: write one of {', '.join(sorted(PRESETS))}")
    chosen = PRESETS[preset]
    own = {variant: side.labels_of_pods(chosen) for variant, side in sides.items()}
    return (*chosen.signals(namespace, sides), *(_own_signal(metric, own) for metric in metrics))


def _own_signal(metric: OwnCounter, variants: Mapping[Variant, Mapping[str, str]]) -> SignalQuery:
    try:
        events, total = parse_selector(metric.events), parse_selector(metric.total)
    except SpecError as refused:
        raise SpecError(f"signal {metric.name}: {refused}") from refused
    return SignalQuery(metric.name, SignalKind.COUNTER, (events,), (total,), variants=variants)
