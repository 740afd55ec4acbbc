"""Options of `davylamp diff`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from davylamp.cli.options import complete_names

Name = Annotated[
    str | None,
    typer.Argument(
        help="ModelRollout whose disagreeing pairs are fetched from its comparator.", autocompletion=complete_names
    ),
]
Baseline = Annotated[
    str | None,
    typer.Option("--baseline", help="Where the baseline is: http://HOST:PORT, https://HOST:PORT or grpc://HOST:PORT."),
]
Candidate = Annotated[str | None, typer.Option("--candidate", help="Where the candidate is.")]
Requests = Annotated[
    Path | None,
    typer.Option(
        "--requests",
        help='File of requests, one JSON object a line: {"method", "path", "headers", "body" or "body_base64"}. '
        '"-" for the standard input.',
    ),
]
RulesFile = Annotated[
    Path | None,
    typer.Option("--rules", help="Manifest of the ModelRollout or policy that says how answers are compared."),
]
MaxDisagreement = Annotated[
    str | None,
    typer.Option("--max-disagreement", help="Largest share of disagreeing pairs. Default: the rules', or 2%."),
]
Concurrency = Annotated[int, typer.Option("--concurrency", min=1, max=256, help="Requests at once.")]
CaFile = Annotated[
    Path | None,
    typer.Option(
        "--ca-file", help="Certificates that vouch for https addresses. Default: those that this machine trusts."
    ),
]
Again = Annotated[
    bool,
    typer.Option("--aa", help="Ask the baseline twice, and show how often it disagrees with itself."),
]
Report = Annotated[
    Path | None, typer.Option("--report", help="Write the result to this file as JSON; - for standard output.")
]
Page = Annotated[Path | None, typer.Option("--html", help="Write what is shown to this file as a page, too.")]
Show = Annotated[int, typer.Option("--show", min=0, max=1000, help="How many pairs are shown side by side.")]
