"""The commands, their options and their help."""

from __future__ import annotations

import json
import math
import sys
import textwrap
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from davylamp.cli.calibrate import calibrate
from davylamp.cli.diff import ENDINGS, diff
from davylamp.cli.failure import MEANINGS, ExitCode, FailureError
from davylamp.cli.labels import labels
from davylamp.cli.options import Context, FindingFormat, Format, Kubeconfig, Name, Namespace, NoColor, Output, Shell
from davylamp.cli.plan import plan
from davylamp.cli.replay import replay
from davylamp.cli.shadow import shadow, shadow_help

if TYPE_CHECKING:
    from rich.console import Console

    from davylamp.cli.cluster import Cluster

_EXIT_CODES = "\b\nExit codes:\n" + "\n".join(
    textwrap.fill(f"  {code.value}  {MEANINGS[code]}", width=76, subsequent_indent="     ") for code in ExitCode
)

app = typer.Typer(
    name="davylamp",
    help="Watch and explain safe rollouts of optimised models.\n\n" + _EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


@app.command("list")
def list_rollouts(  # noqa: PLR0913 - each parameter is an option
    *,
    namespace: Namespace = None,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Those of all namespaces.")] = False,
    selector: Annotated[str, typer.Option("--selector", "-l", help="Only those whose labels match.")] = "",
    output: Output = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    no_color: NoColor = False,
) -> None:
    """List rollouts: phase, step, weight and verdict."""
    from davylamp.cli.listing import table
    from davylamp.cli.sight import sight
    from davylamp.runtime.clock import SystemClock

    cluster = _cluster(kubeconfig, context, namespace)
    found = cluster.rollouts(None if all_namespaces else cluster.namespace, selector)
    found.sort(key=lambda rollout: (rollout["metadata"]["namespace"], rollout["metadata"]["name"]))
    if output not in {None, Format.WIDE}:
        _print_objects({"apiVersion": "v1", "kind": "List", "items": found}, output)
    elif not found:
        where = "any namespace" if all_namespaces else f"namespace {cluster.namespace}"
        sys.stderr.write(f"there are no ModelRollouts in {where}\n")
    else:
        rows = [sight(rollout) for rollout in found]
        text = table(rows, SystemClock().now(), namespaces=all_namespaces, wide=output is Format.WIDE)
        _console(no_color=no_color).print(text, soft_wrap=True)


@app.command(short_help="Show a rollout: steps, weight, signals and their evidence.")
def get(  # noqa: PLR0913 - as for list
    name: Name,
    *,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep showing it as it changes.")] = False,
    namespace: Namespace = None,
    output: Output = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    no_color: NoColor = False,
) -> None:
    """Show a rollout: steps, weight asked and observed, and what each signal says, with its evidence.

    With --watch, the picture changes with the rollout on a terminal; elsewhere each change is a line.
    """
    from davylamp.cli import live
    from davylamp.cli.view import render
    from davylamp.runtime.clock import SystemClock

    cluster, clock = _cluster(kubeconfig, context, namespace), SystemClock()
    console = _console(no_color=no_color)
    if watch:
        live.watch(cluster, name, console, clock.now)
        return
    rollout = cluster.rollout(name)
    if output not in {None, Format.WIDE}:
        _print_objects(rollout, output)
        return
    if output is Format.WIDE:
        console.width = max(console.width, 140)
    console.print(render(rollout, clock.now(), policy=live.policy_of(cluster, rollout)))


@app.command(epilog=_EXIT_CODES, short_help="Wait for the end of a rollout; the exit code says which.")
def status(  # noqa: PLR0913 - as for list
    name: Name,
    *,
    timeout: Annotated[
        str | None, typer.Option("--timeout", help='Longest time to wait, such as "30m". Default: for ever.')
    ] = None,
    watch: Annotated[bool, typer.Option("--watch/--no-watch", help="Wait until the rollout is decided.")] = True,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    no_color: NoColor = False,
) -> None:
    """Wait until a rollout is promoted or rolled back, and say by the exit code which."""
    from davylamp.cli import live
    from davylamp.runtime.clock import SystemClock

    clock = SystemClock()
    limit = timedelta(0) if not watch else _duration(timeout)
    started = clock.now()

    def patience() -> float:
        return math.inf if limit is None else (limit - (clock.now() - started)).total_seconds()

    cluster, console = _cluster(kubeconfig, context, namespace), _console(no_color=no_color)
    screen = live.Screen(console, clock.now, live.policy_of(cluster, cluster.rollout(name)))
    code = live.wait(cluster, name, screen, patience)
    if code is ExitCode.UNDECIDED and watch:
        raise FailureError(f"{name} is not decided after {timeout}: davylamp explain {name} says why", code)
    raise typer.Exit(code)


@app.command(short_help="Say why a rollout stands where it is, and what you can do.")
def explain(
    name: Name,
    *,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    no_color: NoColor = False,
) -> None:
    """Say why a rollout stands where it stands, what happens next, what you can do, and who set what."""
    from davylamp.cli import live
    from davylamp.cli.explain import explain as explanation
    from davylamp.runtime.clock import SystemClock

    cluster = _cluster(kubeconfig, context, namespace)
    rollout, policy, trouble = cluster.rollout(name), None, ""
    try:
        policy = live.read_policy(cluster, rollout)
    except FailureError as failure:
        trouble = f"The policy cannot be read: {failure}."
    _console(no_color=no_color).print(explanation(rollout, SystemClock().now(), policy=policy, policy_trouble=trouble))


@app.command(
    epilog="Exit codes: 0 nothing would be refused; 2 something would.",
    short_help="Check manifests without a cluster.",
)
def lint(
    files: Annotated[list[Path], typer.Argument(help='Files or folders of YAML; "-" for the standard input.')],
    *,
    output: Annotated[
        FindingFormat, typer.Option("--output", "-o", help="Print the findings in this format.")
    ] = FindingFormat.TEXT,
    strict: Annotated[bool, typer.Option("--strict", help="Let hints fail as errors do.")] = False,
) -> None:
    """Check manifests without a cluster: what the API server would refuse, and what may not be meant."""
    from davylamp.cli.lint import lint as check
    from davylamp.cli.quantity import counted
    from davylamp.cli.texts import read_texts

    report = check(read_texts(files))
    if output is FindingFormat.JSON:
        typer.echo(json.dumps([finding.manifest() for finding in report.findings], indent=2))
    else:
        for finding in report.findings:
            typer.echo(str(finding))
        typer.echo(f"{counted(report.objects, 'object')}, {counted(len(report.findings), 'finding')}", err=True)
    if report.failed or (strict and report.findings):
        raise typer.Exit(ExitCode.WRONG)


app.command(short_help="Run a rollout over the past: what would its policy have done?")(replay)
app.command(short_help="Compare the baseline's pods: which margin do they need?")(calibrate)
app.command(short_help="Compare two variants by the same requests, or show pairs that disagreed.", epilog=ENDINGS)(diff)
app.command(short_help="Say how soon a rollout's gates would find a regression.")(plan)


@app.command()
def version(
    *,
    output: Annotated[
        FindingFormat, typer.Option("--output", "-o", help="Print the version in this format.")
    ] = FindingFormat.TEXT,
) -> None:
    """Print the version."""
    from davylamp import __version__

    if output is FindingFormat.JSON:
        typer.echo(json.dumps({"version": __version__}))
    else:
        typer.echo(f"davylamp {__version__}")


@app.command(short_help="Print what completes words in a shell or in kubectl.")
def completion(shell: Annotated[Shell, typer.Argument(help="Who completes words.")]) -> None:
    """Print a script that lets a shell, or kubectl, complete commands, options and names of rollouts."""
    from davylamp.cli.completion import script

    typer.echo(script(shell.value))


def _operator_help() -> str:
    from davylamp.runtime.settings import VARIABLES

    settings = "\n".join(f"{name}: {meaning}." for name, meaning in VARIABLES.items())
    return f"Run the operator. Its settings are environment variables.\n\n\b\n{settings}"


@app.command(help=_operator_help(), epilog="Exit codes: 0 told to stop; 2 a setting is wrong.")
def operator() -> None:
    """Run the operator."""
    from davylamp.runtime.main import main

    main()


app.command(help=shadow_help(), epilog="Exit codes: 0 told to stop; 2 a setting is wrong.")(shadow)
app.add_typer(labels)


def _cluster(kubeconfig: str | None, context: str | None, namespace: str | None) -> Cluster:
    from davylamp.cli.cluster import Cluster
    from davylamp.cli.kubeconfig import Choice, connect

    return Cluster(connect(Choice(kubeconfig, context, namespace)))


def _console(*, no_color: bool) -> Console:
    from rich.console import Console

    return Console(no_color=True if no_color else None, highlight=False, markup=False, emoji=False)


def _duration(text: str | None) -> timedelta | None:
    from davylamp.api.v1alpha1.quantities import parse_duration

    try:
        return None if text is None else parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--timeout") from error


def _print_objects(value: dict[str, Any], output: Format | None) -> None:
    if output is Format.JSON:
        typer.echo(json.dumps(value, indent=2))
    elif output is Format.YAML:
        import yaml

        typer.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)
    else:
        for item in value.get("items", [value]):
            typer.echo(f"modelrollout.davylamp.dev/{item['metadata']['name']}")


def run(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and leave with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    plugin = Path(sys.argv[0]).name.startswith("kubectl-")
    try:
        app(args=arguments, prog_name="kubectl davylamp" if plugin else "davylamp")
    except FailureError as failure:
        sys.stderr.write(f"davylamp: {failure}\n")
        sys.exit(failure.code)
    sys.exit(0)
