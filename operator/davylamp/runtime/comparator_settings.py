"""What the comparator is told at its start."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from davylamp.errors import SpecError
from davylamp.runtime.settings import flag, listen_address, log_format_of, namespace_name

#: Environment variables, and what they set.
COMPARATOR_VARIABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "DAVYLAMP_NAMESPACE": "namespace whose ModelRollouts are served; that of the pod",
        "DAVYLAMP_SHADOW_SERVICE": "name of the comparator's own Service; rollouts that name another are another's",
        "DAVYLAMP_LISTEN": "address for everything, and port for probes, metrics and captured pairs",
        "DAVYLAMP_LOG_FORMAT": "json or console",
        "DAVYLAMP_RESOLVE_ENDPOINTS": "whether variants are called at the endpoints of their Services (true), and not "
        "by the names of these, as where there is no cluster DNS",
        "DAVYLAMP_CAPTURES_KEY_FILE": "file with the key that captured pairs are shown for; without one they "
        "are shown to nobody",
        "DAVYLAMP_LABELS_URL": "address of the service that joins decisions with labels; without one none are sent",
        "DAVYLAMP_LABELS_TOKEN_FILE": "file with the token that the labels service asks for",
    }
)
_SERVICE: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ComparatorSettings:
    """Settings of one process.

    Parameters
    ----------
    namespace
        Whose ModelRollouts are served.
    service
        Name of the comparator's own Service.
    host, port
        Where mirrored requests are taken, and where probes and metrics are served; port 0 picks one.
    log_format
        ``json`` or ``console``.
    resolve_endpoints
        Whether variants are called at the endpoints of their Services, and not by the names of these.
    captures_key_file
        File with the key that captured pairs are shown for; None for nobody.
    labels_url, labels_token_file
        Where decisions are joined with labels, empty for nowhere, and the file with the token for it.
    relist_every
        Seconds between two full lists, from which a deletion is derived that no watch has shown, >= 1.
    """

    namespace: str
    service: str = "davylamp-shadow"
    host: str = "0.0.0.0"  # noqa: S104 - requests, probes and metrics come from outside the pod
    port: int = 8080
    log_format: str = "json"
    resolve_endpoints: bool = False
    captures_key_file: Path | None = None
    labels_url: str = ""
    labels_token_file: Path | None = None
    relist_every: int = 30


def comparator_settings(environment: Mapping[str, str]) -> ComparatorSettings:
    """Read the settings.

    Parameters
    ----------
    environment
        See `COMPARATOR_VARIABLES`.

    Raises
    ------
    SpecError
        If a value cannot be read; the message names the variable.
    """
    host, port = listen_address(environment.get("DAVYLAMP_LISTEN", "0.0.0.0:8080"))
    service = environment.get("DAVYLAMP_SHADOW_SERVICE") or "davylamp-shadow"
    if not _SERVICE.fullmatch(service):
        raise SpecError(f"DAVYLAMP_SHADOW_SERVICE must name a Service, got {service!r}")
    file, token = (environment.get(f"DAVYLAMP_{name}_FILE") for name in ("CAPTURES_KEY", "LABELS_TOKEN"))
    url = environment.get("DAVYLAMP_LABELS_URL", "")
    if url and not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", url):
        raise SpecError("DAVYLAMP_LABELS_URL must be an address such as http://davylamp-labels:8080")
    return ComparatorSettings(
        namespace=namespace_name("DAVYLAMP_NAMESPACE", environment.get("DAVYLAMP_NAMESPACE", "")),
        service=service,
        host=host,
        port=port,
        log_format=log_format_of(environment),
        captures_key_file=Path(file) if file else None,
        labels_url=url,
        labels_token_file=Path(token) if token else None,
        resolve_endpoints=flag(environment, "DAVYLAMP_RESOLVE_ENDPOINTS", "false"),
    )
