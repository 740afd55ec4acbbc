"""What the operator is told at its start."""

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from davylamp.errors import SpecError

#: Environment variables, and what they set.
VARIABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "DAVYLAMP_NAMESPACE": "namespace of the operator itself: lease, and Secrets of MetricSources",
        "DAVYLAMP_WATCH_NAMESPACES": "namespaces whose ModelRollouts are served, separated by commas; empty for all",
        "DAVYLAMP_IDENTITY": "name of this process as a leader; the name of its pod",
        "DAVYLAMP_LISTEN": "address and port for probes and metrics",
        "DAVYLAMP_LOG_FORMAT": "json or console",
        "DAVYLAMP_STATUS_EVERY_SECONDS": "least time between two writes of a status in which only numbers changed",
        "DAVYLAMP_PAGERDUTY_ENDPOINT": "scheme, host and port that stand for PagerDuty's",
        "DAVYLAMP_SLACK_ENDPOINT": "scheme, host and port that stand for Slack's",
        "DAVYLAMP_KOPF_HINTS": "whether Kopf watches for changes (true); without it, changes are seen by relisting",
    }
)

_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_ENDPOINT: Final = re.compile(r"https?://[^\s/@?#]+/?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one process.

    Parameters
    ----------
    namespace
        Of the operator itself.
    watch_namespaces
        Whose ModelRollouts are served; none for all.
    identity
        Name as a leader. A restart under the same name takes the lease over at once.
    host, port
        Where probes and metrics are served; port 0 picks one.
    log_format
        ``json`` or ``console``.
    relist_every
        Time between two full relists, from which alone deletions are derived.
    status_every
        Least time between two writes of a status in which only numbers changed.
    lease_duration, lease_deadline, lease_retry
        After which time without renewal another may lead, this one stops acting, and how often it renews.
    endpoints
        By receiver (``slack``, ``pagerDuty``): what stands for its own address.
    kopf_hints
        Whether Kopf watches for changes.
    requests_per_second, burst, connections
        Limits towards the API server.
    """

    namespace: str = "davylamp-system"
    watch_namespaces: tuple[str, ...] = ()
    identity: str = "davylamp"
    host: str = "0.0.0.0"  # noqa: S104 - probes and metrics come from outside the pod
    port: int = 8080
    log_format: str = "json"
    relist_every: timedelta = timedelta(seconds=30)
    status_every: timedelta = timedelta(seconds=10)
    lease_duration: timedelta = timedelta(seconds=15)
    lease_deadline: timedelta = timedelta(seconds=10)
    lease_retry: timedelta = timedelta(seconds=2)
    endpoints: Mapping[str, str] = field(default_factory=dict)
    kopf_hints: bool = True
    requests_per_second: float = 200.0
    burst: int = 400
    connections: int = 32


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Read the settings.

    Parameters
    ----------
    environment
        See `VARIABLES`.

    Raises
    ------
    SpecError
        If a value cannot be read; the message names the variable.
    """
    host, port = listen_address(environment.get("DAVYLAMP_LISTEN", "0.0.0.0:8080"))
    endpoints = {
        receiver: _endpoint(environment, name)
        for receiver, name in (("slack", "DAVYLAMP_SLACK_ENDPOINT"), ("pagerDuty", "DAVYLAMP_PAGERDUTY_ENDPOINT"))
        if environment.get(name)
    }
    return Settings(
        namespace=namespace_name("DAVYLAMP_NAMESPACE", environment.get("DAVYLAMP_NAMESPACE") or "davylamp-system"),
        watch_namespaces=_namespaces(environment, "DAVYLAMP_WATCH_NAMESPACES"),
        identity=environment.get("DAVYLAMP_IDENTITY") or f"{socket.gethostname()}-{os.getpid()}",
        host=host,
        port=port,
        log_format=log_format_of(environment),
        status_every=timedelta(seconds=_number(environment, "DAVYLAMP_STATUS_EVERY_SECONDS", 10.0)),
        endpoints=endpoints,
        kopf_hints=flag(environment, "DAVYLAMP_KOPF_HINTS"),
    )


def namespace_name(variable: str, name: str) -> str:
    """Return the name of a namespace, which a variable gives.

    Raises
    ------
    SpecError
        If it is none.
    """
    if not _NAMESPACE.fullmatch(name):
        raise SpecError(f"{variable} must name namespaces (lower-case letters, digits and '-'), got {name!r}")
    return name


def _namespaces(environment: Mapping[str, str], variable: str) -> tuple[str, ...]:
    names = (name.strip() for name in environment.get(variable, "").split(","))
    return tuple(dict.fromkeys(namespace_name(variable, name) for name in names if name))


def _endpoint(environment: Mapping[str, str], variable: str) -> str:
    text = environment[variable]
    if not _ENDPOINT.fullmatch(text):
        raise SpecError(f"{variable} must be scheme, host and port, such as http://127.0.0.1:8080, got {text!r}")
    return text.rstrip("/")


def flag(environment: Mapping[str, str], variable: str, default: str = "true") -> bool:
    """Return whether a variable is true.

    Raises
    ------
    SpecError
        If it is neither true nor false.
    """
    text = environment.get(variable) or default
    if text.lower() not in {"true", "false"}:
        raise SpecError(f"{variable} must be true or false, got {text!r}")
    return text.lower() == "true"


def log_format_of(environment: Mapping[str, str]) -> str:
    """Return how lines of the log are written.

    Raises
    ------
    SpecError
        If there is no such way.
    """
    log_format = environment.get("DAVYLAMP_LOG_FORMAT", "json")
    if log_format not in {"json", "console"}:
        raise SpecError(f"DAVYLAMP_LOG_FORMAT must be json or console, got {log_format!r}")
    return log_format


def listen_address(text: str) -> tuple[str, int]:
    """Return the host and the port that `DAVYLAMP_LISTEN` names.

    Raises
    ------
    SpecError
        If it names none.
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise SpecError(f"DAVYLAMP_LISTEN must be address:port, such as 0.0.0.0:8080, got {text!r}")
    return host.strip("[]"), int(port)


def _number(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(name) or str(default)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 3600:
        raise SpecError(f"{name} must be seconds between 0 and 3600, got {text!r}")
    return value
