"""Completion of words by shells and by kubectl."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_VARIABLE: Final = "_DAVYLAMP_COMPLETE"
#: kubectl runs an executable of this name on the PATH and reads words, then a directive (4: no files).
_KUBECTL: Final = """\
#!/bin/sh
# Save as kubectl_complete-davylamp, executable, on the PATH.
COMP_WORDS="davylamp $*" COMP_CWORD=$# _DAVYLAMP_COMPLETE=complete_bash davylamp
echo :4"""


def script(shell: str) -> str:
    """Return the script for ``bash``, ``zsh``, ``fish`` or ``kubectl``."""
    if shell == "kubectl":
        return _KUBECTL
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # not listed, and stable

    return get_completion_script(prog_name="davylamp", complete_var=_VARIABLE, shell=shell)


def rollout_names(parameters: Mapping[str, Any], incomplete: str) -> list[str]:
    """Return the names of rollouts that begin so; none if they cannot be known, whatever the reason."""
    from davylamp.cli.cluster import Cluster
    from davylamp.cli.failure import FailureError
    from davylamp.cli.kubeconfig import Choice, connect

    choice = Choice(parameters.get("kubeconfig"), parameters.get("context"), parameters.get("namespace"))
    try:
        cluster = Cluster(connect(choice))
        names = [rollout["metadata"]["name"] for rollout in cluster.rollouts(cluster.namespace)]
    except FailureError:
        return []
    return sorted(name for name in names if name.startswith(incomplete))
