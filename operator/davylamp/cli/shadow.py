"""Run the comparator of shadow traffic."""

from __future__ import annotations

from typing import Annotated

import typer


def shadow_help() -> str:
    """Return the help of the command, with every variable."""
    from davylamp.runtime.comparator_settings import COMPARATOR_VARIABLES

    settings = "\n".join(f"{name}: {meaning}." for name, meaning in COMPARATOR_VARIABLES.items())
    return (
        "Run the comparator: it takes mirrored requests, lets both variants answer them, and counts how the answers "
        f"differ. Its settings are environment variables; options count before them.\n\n\b\n{settings}"
    )


def shadow(
    *,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Namespace whose ModelRollouts are served.")
    ] = None,
    service: Annotated[str | None, typer.Option("--service", help="Name of the comparator's own Service.")] = None,
    listen: Annotated[
        str | None, typer.Option("--listen", help="Address and port, such as 0.0.0.0:8080; the port is the admin's.")
    ] = None,
    resolve_endpoints: Annotated[
        bool | None,
        typer.Option(
            "--resolve-endpoints/--no-resolve-endpoints",
            help="Call variants at the endpoints of their Services, where there is no cluster DNS.",
        ),
    ] = None,
) -> None:
    """Run the comparator."""
    try:
        from davylamp.runtime.comparator import main
    except ModuleNotFoundError as missing:
        from davylamp.cli.failure import ExitCode, FailureError

        text = f"{missing.name} is not installed: the comparator needs davylamp[shadow]"
        raise FailureError(text, ExitCode.WRONG) from missing
    given = {
        "DAVYLAMP_NAMESPACE": namespace,
        "DAVYLAMP_SHADOW_SERVICE": service,
        "DAVYLAMP_LISTEN": listen,
        "DAVYLAMP_RESOLVE_ENDPOINTS": None if resolve_endpoints is None else str(resolve_endpoints).lower(),
    }
    main({name: value for name, value in given.items() if value is not None})
