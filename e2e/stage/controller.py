"""The operator as a process on the lab, with its own service account's rights and nothing more."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from e2e.lab import Lab, Part
from e2e.lab.component import Component
from e2e.lab.parts import answers

NAMESPACE: Final = "davylamp-system"
SERVICE_ACCOUNT: Final = "davylamp"
_CRDS: Final = Path(__file__).parents[2] / "crds"


def install_crds(lab: Lab) -> None:
    """Install Davylamp's resources, and wait until the API server serves them."""
    lab.api.install_crds([yaml.safe_load(file.read_text("utf-8")) for file in sorted(_CRDS.glob("*.yaml"))])


def operator(
    lab: Lab,
    kubeconfig: Path,
    *,
    name: str = "davylamp",
    port: int = 8081,
    environment: Mapping[str, str] | None = None,
) -> Component:
    """Return the operator, not started yet.

    Parameters
    ----------
    lab
        Where it runs.
    kubeconfig
        Whose rights it has.
    name
        Its name as a process and as a leader.
    port
        Of its probes and metrics.
    environment
        Settings beside the lab's; see `davylamp.runtime.settings.VARIABLES`.
    """
    settings = {
        "KUBECONFIG": str(kubeconfig),
        "DAVYLAMP_NAMESPACE": NAMESPACE,
        "DAVYLAMP_IDENTITY": name,
        "DAVYLAMP_LISTEN": f"127.0.0.1:{port}",
        "DAVYLAMP_STATUS_EVERY_SECONDS": "1",
        **(environment or {}),
    }
    command = (sys.executable, "-c", "from davylamp.runtime.main import main; main()")
    return Component(Part(name, command, lambda: answers(port, "/readyz"), settings), lab.files, lab.namespace)
