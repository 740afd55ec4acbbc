"""How a metric source is reached, and what it is trusted with."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class PrometheusSettings:
    """How a server that speaks the HTTP API of Prometheus is asked.

    Parameters
    ----------
    name
        Of the MetricSource, for messages: the address stands in none.
    address
        What stands before ``/api/v1``.
    timeout
        Longest time for the whole answer to a query, > 0.
    max_sample_age
        Age of a variant's newest sample from which on its series count as missing, > 0.
    queries_per_second
        Most queries a second, >= 1.
    headers
        Sent with each query, such as a tenant's.
    identity
        Labels that tell scraped targets apart, the first of them best.
    """

    name: str
    address: str
    timeout: timedelta = timedelta(seconds=5)
    max_sample_age: timedelta = timedelta(minutes=1)
    queries_per_second: int = 20
    headers: tuple[tuple[str, str], ...] = ()
    identity: tuple[str, ...] = ("instance", "pod")


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a source is trusted with; never shown, logged or kept.

    Parameters
    ----------
    bearer
        A bearer token.
    username, password
        For basic authentication; used if there is no bearer token.
    authority
        Certificates (PEM) of who signed the server's; None for those that the machine trusts.
    """

    bearer: str | None = field(default=None, repr=False)
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    authority: str | None = field(default=None, repr=False)


#: Reads the credentials anew. A missing Secret: `SpecError`. The API server does not answer: `Unavailable`.
CredentialReader = Callable[[], Awaitable[Credentials]]


async def no_credentials() -> Credentials:
    """Return credentials of a source that asks for none."""
    return Credentials()
