"""What the service that joins labels is told at its start."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Final

from davylamp.errors import SpecError
from davylamp.labels.records import Terms
from davylamp.runtime.settings import listen_address, log_format_of

#: Environment variables, and what they set.
LABELS_VARIABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "DAVYLAMP_LABELS_DATABASE": "URL of the database: sqlite:////data/labels.db (the default), or "
        "postgresql://user@host/name for several replicas",
        "DAVYLAMP_LABELS_TOKEN_FILE": "file of the tokens that may post, one a line",
        "DAVYLAMP_LABELS_SIGNING_KEY_FILE": "file of the keys that may sign what is posted, one a line",
        "DAVYLAMP_LABELS_TIME_TO_LIVE": "how long a prediction waits for its label; 30d",
        "DAVYLAMP_LABELS_WAIT": "how long a label waits for its prediction; 1h",
        "DAVYLAMP_LABELS_REMEMBER": "how long after its time to live a label is known to be late; 7d",
        "DAVYLAMP_LABELS_EXPORT": "how long an attempt is exported after its last change; 30d",
        "DAVYLAMP_LABELS_SLICES": "slices of one attempt that are counted by name; 64",
        "DAVYLAMP_LISTEN": "address and port, 0.0.0.0:8080",
        "DAVYLAMP_LOG_FORMAT": "json or console",
    }
)
_KEYS: Final = "DAVYLAMP_LABELS_SIGNING_KEY_FILE"
_MOST_SLICES: Final = 1000
_LONGEST: Final = timedelta(days=366)


@dataclass(frozen=True, slots=True)
class LabelsSettings:
    """Settings of one process.

    Parameters
    ----------
    database
        Its URL.
    tokens, signing_keys
        Files; at least one of them is there.
    terms
        How long things are kept.
    host, port
        Where it listens; port 0 picks one.
    log_format
        ``json`` or ``console``.
    tidy_every
        How often what is over is ended.
    """

    database: str = "sqlite:////data/labels.db"
    tokens: Path | None = None
    signing_keys: Path | None = None
    terms: Terms = field(default_factory=Terms)
    host: str = "0.0.0.0"  # noqa: S104 - labels, predictions and scrapes come from outside the pod
    port: int = 8080
    log_format: str = "json"
    tidy_every: timedelta = timedelta(seconds=10)


def labels_settings(environment: Mapping[str, str]) -> LabelsSettings:
    """Read the settings.

    Parameters
    ----------
    environment
        See `LABELS_VARIABLES`.

    Raises
    ------
    SpecError
        If a value cannot be read, or nobody could post; the message names the variable.
    """
    host, port = listen_address(environment.get("DAVYLAMP_LISTEN", "0.0.0.0:8080"))
    tokens, keys = _file(environment, "DAVYLAMP_LABELS_TOKEN_FILE"), _file(environment, _KEYS)
    if tokens is None and keys is None:
        raise SpecError(f"nobody could post: set DAVYLAMP_LABELS_TOKEN_FILE or {_KEYS}")
    return LabelsSettings(
        database=environment.get("DAVYLAMP_LABELS_DATABASE") or "sqlite:////data/labels.db",
        tokens=tokens,
        signing_keys=keys,
        terms=Terms(
            time_to_live=_span(environment, "DAVYLAMP_LABELS_TIME_TO_LIVE", "30d"),
            wait=_span(environment, "DAVYLAMP_LABELS_WAIT", "1h"),
            remember=_span(environment, "DAVYLAMP_LABELS_REMEMBER", "7d"),
            export=_span(environment, "DAVYLAMP_LABELS_EXPORT", "30d"),
            most_slices=_slices(environment),
        ),
        host=host,
        port=port,
        log_format=log_format_of(environment),
    )


def _file(environment: Mapping[str, str], variable: str) -> Path | None:
    return Path(environment[variable]) if environment.get(variable) else None


def _span(environment: Mapping[str, str], variable: str, default: str) -> timedelta:
    # Here, for the command line reads the variables above at its start, and is to load little.
    from davylamp.api.v1alpha1.quantities import parse_duration

    try:
        span = parse_duration(environment.get(variable) or default)
    except ValueError as wrong:
        raise SpecError(f"{variable}: {wrong}") from wrong
    if not timedelta(0) < span <= _LONGEST:
        raise SpecError(f"{variable} must be over 0 and at most {_LONGEST.days}d, got {environment[variable]}")
    return span


def _slices(environment: Mapping[str, str]) -> int:
    text = environment.get("DAVYLAMP_LABELS_SLICES") or "64"
    if not (text.isascii() and text.isdigit() and int(text) <= _MOST_SLICES):
        raise SpecError(f"DAVYLAMP_LABELS_SLICES must be 0 to {_MOST_SLICES}, got {text!r}")
    return int(text)
