"""The two variants of a model, and the route that shares traffic between them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from davylamp.api.v1alpha1.matching import OWN_LABELS
from davylamp.api.v1alpha1.names import LABEL_NAME_PATTERN, Digest, ResourceName, ServiceName
from davylamp.api.v1alpha1.rules import ATOMIC_MAP, Rule, validations
from davylamp.api.v1alpha1.strict import Strict

_ONLY_SERVICES = Rule(
    "self.group == '' && self.kind == 'Service'",
    'only Services can be backends so far: remove group and kind, or write group: "" and kind: Service',
)
_LABEL_NAMES = Rule(
    f"self.all(name, name.matches(r'{LABEL_NAME_PATTERN}'))",
    "write Prometheus label names: letters, digits and '_', not beginning with a digit",
)
_FOREIGN_LABELS = Rule(
    f"!self.exists(name, name in {list(OWN_LABELS)})",
    "remove namespace, __name__ and le: Davylamp sets the namespace of this object itself, and reads the others",
)


class OptimisationMethod(StrEnum):
    """How the candidate was made from the baseline."""

    QUANTISATION = "Quantisation"
    PRUNING = "Pruning"
    DISTILLATION = "Distillation"
    COMPILATION = "Compilation"
    OTHER = "Other"


class Backend(Strict):
    """The Service that a variant is reached by."""

    model_config = ConfigDict(json_schema_extra=validations(_ONLY_SERVICES, **ATOMIC_MAP))

    group: Annotated[str, Field(max_length=253)] = Field(
        "", description="API group of the backend: empty, for Service."
    )
    kind: Annotated[str, Field(max_length=63)] = Field("Service", description="Kind of the backend: Service.")
    name: ServiceName = Field(description="Name of the Service, in the namespace of the ModelRollout.")
    port: int = Field(ge=1, le=65535, description="Port of the Service, as the route names it.")

    @model_validator(mode="after")
    def _only_services(self) -> Self:
        if (self.group, self.kind) != ("", "Service"):
            raise ValueError(_ONLY_SERVICES.message)
        return self


class Model(Strict):
    """Which model a variant serves."""

    registry: str | None = Field(None, max_length=63, description="Where the model is registered; shown to people.")
    name: str | None = Field(None, max_length=253, description="Name of the model there; shown to people.")
    version: str | None = Field(None, max_length=128, description="Version of the model there; shown to people.")
    digest: Digest | None = Field(
        None,
        description="Digest of the model artefact. A candidate that was rolled back is recognised by it and kept in "
        "quarantine; without a digest, by the rest of its description.",
    )


class Optimisation(Strict):
    """What was done to the baseline's model to make the candidate's."""

    method: OptimisationMethod = Field(description="How the candidate was made from the baseline.")
    detail: str | None = Field(None, max_length=256, description='In words, such as "int8, per channel".')


class VariantMetrics(Strict):
    """How the time series of one variant are told from those of the other."""

    labels: dict[Annotated[str, Field(max_length=128)], Annotated[str, Field(max_length=253)]] = Field(
        min_length=1,
        max_length=8,
        description="Labels that every series of this variant carries and no series of the other does. Default: what "
        "the preset says (mlserver: service; envoy: envoy_cluster_name). The namespace is always matched.",
        json_schema_extra=validations(_LABEL_NAMES, _FOREIGN_LABELS, **ATOMIC_MAP),
    )

    @model_validator(mode="after")
    def _labels_are_names(self) -> Self:
        for name in self.labels:
            if not name.isascii() or not name.isidentifier():
                raise ValueError(_LABEL_NAMES.message)
            if name in OWN_LABELS:
                raise ValueError(_FOREIGN_LABELS.message)
        return self


class Variant(Strict):
    """The variant that serves now."""

    backend: Backend = Field(description="The Service that this variant is reached by.")
    model: Model | None = Field(None, description="Which model this variant serves.")
    metrics: VariantMetrics | None = Field(None, description="How this variant's time series are recognised.")


class Candidate(Variant):
    """The variant on trial."""

    optimisation: Optimisation | None = Field(
        None, description="What was done to the baseline's model to make this one."
    )


class GatewayAPI(Strict):
    """A route of the Gateway API."""

    http_route: ResourceName = Field(
        description="Name of the HTTPRoute whose rules point to the baseline's Service, in the namespace of the "
        "ModelRollout. Davylamp adds the candidate to these rules, changes nothing else, and takes it out again."
    )


class Route(Strict):
    """The object that shares traffic between the variants."""

    gateway_api: GatewayAPI = Field(alias="gatewayAPI", description="The route is a route of the Gateway API.")
