"""What a preset says: the series of errors and latency, and by which labels they show their variant."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from davylamp.core.model import Variant
from davylamp.core.reading import SignalQuery


@dataclass(frozen=True, slots=True)
class OwnCounter:
    """A signal of the user's own, as two counter selectors in PromQL."""

    name: str
    events: str
    total: str


@dataclass(frozen=True, slots=True)
class Side:
    """One variant as metrics know it.

    Parameters
    ----------
    service, port
        The Service that it is reached by.
    labels
        What the user says that its series carry; empty if the preset's default holds.
    """

    service: str
    port: int
    labels: Mapping[str, str] = field(default_factory=dict)

    def labels_of_pods(self, preset: "Preset") -> Mapping[str, str]:
        """Return the labels that the series of its own pods carry."""
        given = {name: value for name, value in self.labels.items() if name != preset.gateway_label}
        return given or {"service": self.service}


@dataclass(frozen=True, slots=True)
class Preset:
    """Where errors and latency are found.

    Parameters
    ----------
    errors, latency
        What is read, without labels of variants.
    gateway_label
        The label by which a gateway tells the backends apart; None if the series are those of the pods themselves.
        Of the labels that a user gives, this one is the gateway's and the others are the pods'.
    gateway_value
        Its value, with ``{namespace}``, ``{service}`` and ``{port}``.
    """

    errors: SignalQuery
    latency: SignalQuery
    gateway_label: str | None = None
    gateway_value: str = ""

    def signals(self, namespace: str, sides: Mapping[Variant, Side]) -> tuple[SignalQuery, SignalQuery]:
        """Return errors and latency, with the labels that the variants' series carry."""
        variants = {variant: self.labels(namespace, side) for variant, side in sides.items()}
        return replace(self.errors, variants=variants), replace(self.latency, variants=variants)

    def labels(self, namespace: str, side: Side) -> Mapping[str, str]:
        """Return the labels that the series of errors and latency of one variant carry."""
        if self.gateway_label is None:
            return side.labels_of_pods(self)
        default = self.gateway_value.format(namespace=namespace, service=side.service, port=side.port)
        return {self.gateway_label: side.labels.get(self.gateway_label, default)}
