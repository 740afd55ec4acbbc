"""Write the reference of the command line: ``python -m davylamp.cli.reference [--check] [file]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import typer

from davylamp.cli.app import app
from davylamp.cli.completion import script
from davylamp.cli.failure import MEANINGS, ExitCode

PAGE: Final = Path("docs/reference/cli.md")
_HEAD: Final = """\
# Command line

<!-- Generated from operator/davylamp/cli by `python -m davylamp.cli.reference`. Do not edit. -->

`davylamp` reads ModelRollouts through a kubeconfig, found as kubectl finds it: `--kubeconfig`, then `$KUBECONFIG`
(several files are merged), then `~/.kube/config`, then the service account of a pod. As `kubectl-davylamp` on the PATH
it is a plugin: `kubectl davylamp get credit`. It changes nothing in the cluster.

Colours are left out with `--no-color`, with `$NO_COLOR`, and where the output is no terminal; a terminal without UTF-8
gets plain signs.
"""


def rendered() -> str:
    """Return the page."""
    group: Any = typer.main.get_command(app)
    parts = [_HEAD, *_exit_codes()]
    for name, command in _commands(group.commands):
        parts += _command(name, command)
    parts.append("## Completion in kubectl")
    parts.append("kubectl asks a program of its own for words. Print it with `davylamp completion kubectl`:")
    parts.append(f"```sh\n{script('kubectl')}\n```")
    return "\n".join(f"{part.rstrip()}\n" for part in parts)


def _commands(commands: Mapping[str, Any], group: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all commands, those of groups under both names."""
    for name, command in commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command.commands, f"{group}{name} ")
        else:
            yield f"{group}{name}", command


def _exit_codes() -> Iterator[str]:
    yield "## Exit codes"
    rows = "\n".join(f"| {code.value} | {MEANINGS[code]} |" for code in ExitCode)
    yield f"| code | meaning |\n|---|---|\n{rows}"


def _command(name: str, command: Any) -> Iterator[str]:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    usage = " ".join(_usage(argument) for argument in arguments)
    yield f"## davylamp {name}"
    yield _prose(command.help or "")
    yield f"```sh\ndavylamp {name}{' [options]' if options else ''}{' ' + usage if usage else ''}\n```"
    if arguments or options:
        rows = [f"| `{_escaped(_usage(argument))}` | {_help(argument)} |" for argument in arguments]
        rows += [f"| {_spelling(option)} | {_help(option)} |" for option in options]
        yield "| argument or option | meaning |\n|---|---|\n" + "\n".join(rows)


def _prose(text: str) -> str:
    """Return help as Markdown; what is marked to keep its lines becomes a list."""
    paragraphs = []
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("\b\n"):
            lines = (line.partition(": ") for line in paragraph.splitlines()[1:])
            paragraphs.append("\n".join(f"- `{name}`: {meaning}" for name, _, meaning in lines))
        else:
            paragraphs.append(" ".join(paragraph.split()))
    return "\n\n".join(paragraphs)


def _usage(argument: Any) -> str:
    many = "..." if argument.nargs == -1 else ""
    choices = _choices(argument)
    return ("|".join(choices) if choices else argument.name.upper()) + many


def _spelling(option: Any) -> str:
    names = [f"`{name}`" for name in (*option.opts, *option.secondary_opts)]
    return ", ".join(names) + "".join(f" `{choices}`" for choices in [" ".join(_choices(option))] if choices)


def _choices(parameter: Any) -> list[str]:
    kind = parameter.type_descriptor.annotation
    return [member.value for member in kind] if isinstance(kind, type) and issubclass(kind, StrEnum) else []


def _help(parameter: Any) -> str:
    return _escaped(" ".join((parameter.help or "").split()))


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 1 if ``--check`` finds a difference."""
    parser = argparse.ArgumentParser(prog="reference", description="Write the reference of the command line.")
    parser.add_argument("file", nargs="?", type=Path, default=PAGE, help=f"where it is (default: {PAGE})")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the file is not as it would be")
    options = parser.parse_args(arguments)
    if not options.check:
        options.file.parent.mkdir(parents=True, exist_ok=True)
        options.file.write_text(rendered(), encoding="utf-8")
        return 0
    if options.file.exists() and options.file.read_text(encoding="utf-8") == rendered():
        return 0
    sys.stderr.write(f"{options.file} differs from the commands: run python -m davylamp.cli.reference\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
