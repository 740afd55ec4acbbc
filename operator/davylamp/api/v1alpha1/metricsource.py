"""Where metrics are asked for; the platform team's, since it carries addresses and credentials."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from davylamp.api.v1alpha1.names import HeaderName, HeaderValue, HttpAddress, ResourceName, SecretKey
from davylamp.api.v1alpha1.quantities import DurationBetween
from davylamp.api.v1alpha1.rules import ATOMIC_MAP, Rule, keyed_by, validations
from davylamp.api.v1alpha1.strict import Strict

_ONE_AUTH = Rule(
    "has(self.bearerToken) != has(self.basic)",
    "credentials are of one kind: write bearerToken or basic, and remove the other",
)
_NOT_A_CREDENTIAL = Rule(
    "self.name.lowerAscii() != 'authorization'",
    "credentials do not belong in a resource that others may read: "
    "put them into a Secret and write auth.bearerToken or auth.basic",
    ".name",
)


class OperatorSecretKey(Strict):
    """One value of a Secret in the namespace of the operator."""

    model_config = ConfigDict(json_schema_extra=ATOMIC_MAP)

    name: ResourceName = Field(description="Name of the Secret in the namespace of the operator.")
    key: SecretKey = Field(description="Key of the value in the Secret.")


class BasicAuth(Strict):
    """User name and password, after RFC 7617."""

    username: OperatorSecretKey = Field(description="Where the user name stands.")
    password: OperatorSecretKey = Field(description="Where the password stands.")


class Auth(Strict):
    """Credentials, read again for each query so that a rotation takes effect."""

    model_config = ConfigDict(json_schema_extra=validations(_ONE_AUTH))

    bearer_token: OperatorSecretKey | None = Field(None, description="Where the bearer token stands.")
    basic: BasicAuth | None = Field(None, description="User name and password.")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.bearer_token is None) == (self.basic is None):
            raise ValueError(_ONE_AUTH.message)
        return self


class Header(Strict):
    """A header that is sent with each query."""

    model_config = ConfigDict(json_schema_extra=validations(_NOT_A_CREDENTIAL))

    name: HeaderName = Field(description="Name of the header, such as X-Scope-OrgID.")
    value: HeaderValue = Field(description="Value of the header, such as the tenant.")

    @model_validator(mode="after")
    def _not_a_credential(self) -> Self:
        if self.name.lower() == "authorization":
            raise ValueError(_NOT_A_CREDENTIAL.message)
        return self


class Prometheus(Strict):
    """A server that speaks the HTTP API of Prometheus."""

    address: HttpAddress = Field(
        description="Address before /api/v1, such as http://prometheus.monitoring:9090 or https://mimir/prometheus."
    )
    auth: Auth | None = Field(None, description="Credentials.")
    ca: OperatorSecretKey | None = Field(
        None,
        description="Where the certificates (PEM) of the authority that signed the server's stand. "
        "Default: the authorities that the operator's image trusts.",
    )
    headers: tuple[Header, ...] | None = Field(
        None,
        max_length=16,
        description="Headers that are sent with each query, such as the tenant of Mimir.",
        json_schema_extra=keyed_by("name"),
    )
    timeout: Annotated[str, DurationBetween("1s", "1m")] = Field(
        "5s", description="Longest time for the whole answer to a query."
    )
    max_sample_age: Annotated[str, DurationBetween("2s", "1h")] = Field(
        "1m", description="Age of the newest sample from which on a series counts as missing: some scrape intervals."
    )
    queries_per_second: int = Field(
        20, ge=1, le=1000, description="Most queries a second that the operator sends, for all rollouts together."
    )


class MetricSourceSpec(Strict):
    """A server that knows the metrics."""

    prometheus: Prometheus = Field(description="A server that speaks the HTTP API of Prometheus.")
