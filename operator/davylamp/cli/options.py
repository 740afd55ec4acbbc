"""Options that commands share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Format(StrEnum):
    """How objects are printed."""

    JSON = "json"
    YAML = "yaml"
    WIDE = "wide"
    NAME = "name"


class FindingFormat(StrEnum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"


class Shell(StrEnum):
    """Who completes words."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    KUBECTL = "kubectl"


def complete_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the rollouts whose names begin so."""
    from davylamp.cli.completion import rollout_names

    return rollout_names(context.params, incomplete)


Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="Namespace of the rollouts. Default: that of the context."),
]
Context = Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig. Default: the current one.")]
Kubeconfig = Annotated[
    str | None,
    typer.Option("--kubeconfig", help="The kubeconfig file. Default: $KUBECONFIG, then ~/.kube/config."),
]
NoColor = Annotated[bool, typer.Option("--no-color", help="Print without colours, as with $NO_COLOR.")]
Output = Annotated[Format | None, typer.Option("--output", "-o", help="Print the objects in this format.")]
Name = Annotated[str, typer.Argument(help="Name of the ModelRollout.", autocompletion=complete_names)]
