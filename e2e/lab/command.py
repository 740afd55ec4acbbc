"""The lab's command line: `python -m e2e.lab up|down|exec|status|build`."""

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from types import FrameType

from e2e.lab import kind
from e2e.lab.build import build
from e2e.lab.failure import LabError
from e2e.lab.lab import Lab
from e2e.lab.namespace import allow_namespaces
from e2e.lab.parts import Profile
from e2e.lab.places import NAME_VARIABLE, cache, chosen_name
from e2e.lab.recipes import PROGRAMS, program
from e2e.lab.starting import clear_logs, clear_orphans
from e2e.lab.waiting import stopwatch


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; what goes wrong is one message on stderr and the code 1."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.act(options))
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m e2e.lab",
        description="A real Kubernetes control plane, gateway and Prometheus as local processes.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, act, text in (
        ("up", _up, "build what is missing, start the lab, wait until it is ready"),
        ("down", _down, "stop the lab and leave nothing of it"),
        ("exec", _exec, "run a command inside the lab's network"),
        ("status", _status, "say what runs"),
        ("build", _build, "build programs into the cache"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(act=act)
        if name != "build":
            command.add_argument(
                "--name", default=None, help=f"the lab (default: ${NAME_VARIABLE}, or {chosen_name({})})"
            )
        if name in {"up", "exec"}:
            _add_start_options(command)
        if name in {"up", "down", "exec"}:
            command.add_argument("--kind", action="store_true", help="use Docker and kind instead of local processes")
        if name == "exec":
            _add_exec_options(command)
        if name == "build":
            known = ", ".join(recipe.name for recipe in PROGRAMS)
            command.add_argument(
                "programs", nargs="*", metavar="PROGRAM", help=f"some of {known} (default: what a lab needs)"
            )
    return parser


def _add_start_options(command: argparse.ArgumentParser) -> None:
    profiles = [profile.value for profile in Profile]
    command.add_argument(
        "--profile", choices=profiles, default=Profile.FULL.value, help="how much to start (default: full)"
    )
    command.add_argument(
        "--scrape-interval", type=float, default=1.0, metavar="SECONDS", help="Prometheus' (default: 1)"
    )


def _add_exec_options(command: argparse.ArgumentParser) -> None:
    how = command.add_mutually_exclusive_group()
    how.add_argument("--up", action="store_true", help="start the lab first if it is down")
    how.add_argument("--own", metavar="NAME", help="start a lab for this command alone, and remove it afterwards")
    how.add_argument("--bare", action="store_true", help="start no lab: only make sure that the command may start labs")
    command.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the command and its arguments"
    )


def _lab(options: argparse.Namespace, name: str | None, *, lasting: bool) -> Lab:
    interval = timedelta(seconds=options.scrape_interval)
    return Lab(name, profile=Profile(options.profile), scrape_interval=interval, lasting=lasting)


def _up(options: argparse.Namespace) -> int:
    if options.kind:
        print(kind.up(options.name or chosen_name(), timedelta(seconds=options.scrape_interval)))
        return 0
    elapsed = stopwatch()
    lab = _lab(options, options.name, lasting=True)
    was_up = lab.up
    lab.start()
    print(_usage(lab, f"was up already ({elapsed():.1f} s)" if was_up else f"is up after {elapsed():.1f} s"))
    return 0


def _usage(lab: Lab, state: str) -> str:
    lines = [f"The lab {lab.name!r} {state}.", "", f"  KUBECONFIG   {lab.kubeconfig}", f"  API server   {lab.api_url}"]
    if lab.profile is Profile.FULL:
        lines += [f"  Gateway      {lab.gateway_url}", f"  Prometheus   {lab.prometheus_url}"]
    lines += [
        f"  Logs         {lab.files.logs}",
        "",
        "Its addresses are valid inside its network. To work there:",
        "  make lab-exec CMD='kubectl get ns'",
        "  .venv/bin/python -m e2e.lab exec -- bash",
        "  make lab-down",
    ]
    return "\n".join(lines)


def _down(options: argparse.Namespace) -> int:
    name = options.name or chosen_name()
    if options.kind:
        kind.down(name)
        print(f"The lab {name!r} is down in kind.")
        return 0
    lab = Lab(name, lasting=True)
    for orphan in clear_orphans():
        print(f"Removed the lab {orphan!r}, whose program had died.")
    was_up, inhabitants = lab.up, lab.inhabitants
    lab.stop()
    clear_logs()
    print(f"The lab {name!r} {'is down' if was_up else 'was down already'}.")
    if left := [str(process.pid) for process in inhabitants if process.alive and process.pid != os.getpid()]:
        print(
            f"Programs that the lab did not start hold on to its network; end them: {' '.join(left)}", file=sys.stderr
        )
    return 0


def _exec(options: argparse.Namespace) -> int:
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise LabError("no command: write it after `--`, as in `exec -- kubectl get ns`")
    if options.kind:
        return _become(command, kind.environment(options.name or chosen_name()))
    if options.bare:
        allow_namespaces()
        return _become(command, dict(os.environ))
    if options.own:
        with _lab(options, options.own, lasting=False) as lab:
            return _run(command, lab)
    if options.up:
        return _become(command, _lab(options, options.name, lasting=True).start().environment())
    return _become(command, Lab.attach(options.name).environment())


def _become(command: list[str], environment: dict[str, str]) -> int:
    try:
        os.execvpe(command[0], command, environment)  # noqa: S606 - no shell is wanted: the words are passed as they are
    except OSError as error:
        raise LabError(f"cannot run {command[0]}: {error}") from error


def _run(command: list[str], lab: Lab) -> int:
    """Run `command` as a child that gets the signals meant for it, and return its exit code as a shell would."""
    try:
        child = subprocess.Popen(command, env=lab.environment())
    except OSError as error:
        raise LabError(f"cannot run {command[0]}: {error}") from error

    def pass_on(number: int, _frame: FrameType | None) -> None:
        child.send_signal(number)

    # The terminal sends SIGINT to the child as well: it decides, and the lab is stopped after it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, pass_on)
    code = child.wait()
    return code if code >= 0 else 128 - code


def _status(options: argparse.Namespace) -> int:
    lab = Lab(options.name, lasting=True)
    if not lab.up:
        print(f"The lab {lab.name!r} is down. Built programs are in {cache() / 'bin'}.")
        return 1
    lab = Lab.attach(options.name)
    for name, component in lab.components.items():
        process = component.process
        state = "ready" if component.running and component.part.ready() else "running" if component.running else "ended"
        print(f"{name:26}{state:10}{process.pid if process else '':<10}{lab.files.log(name)}")
    return 0


def _build(options: argparse.Namespace) -> int:
    build([program(name) for name in options.programs])
    return 0
