"""Join labels that come late with predictions, and push tables of labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def serve_help() -> str:
    """Return the help of the service, with every variable."""
    from davylamp.runtime.labels_settings import LABELS_VARIABLES

    settings = "\n".join(f"{name}: {meaning}." for name, meaning in LABELS_VARIABLES.items())
    return (
        "Run the service: it takes predictions from comparators and labels from you, joins them, and counts. Its "
        f"settings are environment variables; options count before them.\n\n\b\n{settings}"
    )


labels = typer.Typer(
    name="labels",
    help="Join labels that come late with what both variants said.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@labels.command(
    help=serve_help(),
    short_help="Run the service that joins labels.",
    epilog="Exit codes: 0 told to stop; 2 a setting is wrong.",
)
def serve(
    *,
    listen: Annotated[str | None, typer.Option("--listen", help="Address and port, such as 0.0.0.0:8080.")] = None,
    database: Annotated[
        str | None, typer.Option("--database", help="URL of the database, such as sqlite:////data/labels.db.")
    ] = None,
    token_file: Annotated[str | None, typer.Option("--token-file", help="File of the tokens that may post.")] = None,
    signing_key_file: Annotated[
        str | None, typer.Option("--signing-key-file", help="File of the keys that may sign.")
    ] = None,
) -> None:
    """Run the service."""
    try:
        from davylamp.runtime.labels import main
    except ModuleNotFoundError as missing:
        from davylamp.cli.failure import ExitCode, FailureError

        text = f"{missing.name} is not installed: the service needs davylamp[labels]"
        raise FailureError(text, ExitCode.WRONG) from missing
    given = {
        "DAVYLAMP_LISTEN": listen,
        "DAVYLAMP_LABELS_DATABASE": database,
        "DAVYLAMP_LABELS_TOKEN_FILE": token_file,
        "DAVYLAMP_LABELS_SIGNING_KEY_FILE": signing_key_file,
    }
    main({name: value for name, value in given.items() if value is not None})


@labels.command(
    short_help="Push a table of labels; what was pushed before changes nothing.",
    epilog="Exit codes: 0 all rows were taken; 2 the file or a row is wrong; 4 the service does not answer; "
    "5 it refuses. Run it again after a failure: it goes on where rows are new.",
)
def push(  # noqa: PLR0913 - each parameter is an option
    file: Annotated[Path, typer.Argument(help="Table: .csv, .jsonl or .parquet.")],
    *,
    url: Annotated[str, typer.Option("--url", help="The service, such as http://davylamp-labels.ml:8080.")],
    token_file: Annotated[Path, typer.Option("--token-file", help="File whose first line is a token.")],
    id_column: Annotated[str, typer.Option("--id", help="Column of the request ids.")] = "id",
    label_column: Annotated[str, typer.Option("--label", help="Column of the labels.")] = "label",
    time_column: Annotated[
        str, typer.Option("--time", help="Column of the times at which labels became known; ISO 8601 with a zone.")
    ] = "",
    batch: Annotated[int, typer.Option("--batch", min=1, max=1000, help="Labels in one request.")] = 1000,
) -> None:
    """Push a table of labels."""
    from davylamp.cli.labels_push import Columns, Target, push_file

    push_file(file, Columns(id_column, label_column, time_column), Target(url, token_file, batch))
