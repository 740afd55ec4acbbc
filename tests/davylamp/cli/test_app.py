"""The commands as people call them, without a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from davylamp import __version__
from davylamp.cli import reference
from davylamp.cli.app import app
from davylamp.cli.failure import ExitCode
from tests.davylamp.cli.calling import call

GROUP: Any = typer.main.get_command(app)
ROOT = Path(__file__).parents[3]
PROGRAM = Path(sys.executable).with_name("davylamp")


@pytest.mark.parametrize("command", sorted(GROUP.commands))
def test_every_command_has_help_with_a_meaning_for_each_option(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, command, "--help")
    assert ended.code == 0
    assert f"Usage: davylamp {command}" in ended.out
    assert all(parameter.help for parameter in GROUP.commands[command].params)


@pytest.mark.parametrize("arguments", [["--help"], ["status", "--help"]])
def test_the_help_says_what_each_exit_code_means(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(call(capsys, *arguments).out.split())
    assert all(f"{code.value} " in text for code in ExitCode)
    assert "5 the API server answers" in text


@pytest.mark.parametrize(
    "arguments",
    [["unknown"], ["get"], ["get", "a", "b"], ["list", "-o", "xml"], ["status", "x", "--timeout", "3x"], ["lint"]],
)
def test_a_wrong_command_ends_with_2_and_says_why(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    ended = call(capsys, *arguments)
    assert ended.code == ExitCode.WRONG
    assert "Error" in ended.err


@pytest.mark.parametrize("command", [["list"], ["get", "x"], ["status", "x"], ["explain", "x"], ["get", "x", "-w"]])
def test_without_a_cluster_a_command_ends_with_4_and_says_what_to_do(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, *command, "--kubeconfig", str(tmp_path / "none"))
    assert ended.code == ExitCode.UNREACHABLE
    assert "set KUBECONFIG or --kubeconfig" in ended.err
    assert ended.out == ""


def test_an_api_server_that_is_not_there_ends_a_command_with_4(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], unused_tcp_port: int
) -> None:
    kubeconfig = tmp_path / "config"
    server = f"http://127.0.0.1:{unused_tcp_port}"
    kubeconfig.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
                "clusters": [{"name": "c", "cluster": {"server": server}}],
                "users": [{"name": "c", "user": {}}],
            }
        )
    )
    ended = call(capsys, "list", "--kubeconfig", str(kubeconfig))
    assert ended.code == ExitCode.UNREACHABLE
    assert f"the API server {server} cannot be reached" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("arguments", [["version"], ["--version"], ["version", "-o", "text"]])
def test_the_version_is_printed(arguments: list[str]) -> None:
    ended = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=True)
    assert ended.stdout == f"davylamp {__version__}\n"


def test_the_version_is_printed_without_loading_what_it_does_not_need() -> None:
    program = (
        "import sys; sys.argv = ['davylamp', 'version']\n"
        "from davylamp.cli import main\nmain()\n"
        "print(sorted({'typer', 'rich', 'kubernetes', 'pydantic', 'numpy'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "[]"


def test_help_loads_no_client_and_no_statistics() -> None:
    program = (
        "import sys\nfrom davylamp.cli.app import app\n"
        "print(sorted({'kubernetes', 'pydantic', 'numpy', 'aiohttp', 'kopf'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


def test_the_version_is_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(call(capsys, "version", "-o", "json").out) == {"version": __version__}


def test_as_a_plugin_it_calls_itself_by_kubectls_name(tmp_path: Path) -> None:
    plugin = tmp_path / "kubectl-davylamp"
    plugin.symlink_to(PROGRAM)
    ended = subprocess.run([plugin, "get", "--help"], capture_output=True, text=True, check=True)
    assert "Usage: kubectl davylamp get" in ended.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "kubectl"])
def test_a_completion_script_is_printed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    ended = call(capsys, "completion", shell)
    assert ended.code == 0
    assert "_DAVYLAMP_COMPLETE" in ended.out


@pytest.mark.parametrize(
    ("words", "completed"),
    [(["exp"], {"explain"}), (["get", "--na"], {"--namespace"}), (["lint", "-o", "j"], {"json"})],
)
def test_the_script_for_kubectl_completes_words(words: list[str], completed: set[str], tmp_path: Path) -> None:
    from davylamp.cli.completion import script

    program = tmp_path / "kubectl_complete-davylamp"
    program.write_text(script("kubectl"))
    program.chmod(0o755)
    path = f"{PROGRAM.parent}:{os.environ['PATH']}"
    ended = subprocess.run(
        [program, *words], capture_output=True, text=True, check=True, env=os.environ | {"PATH": path}
    )
    lines = ended.stdout.split()
    assert completed <= set(lines)
    assert lines[-1] == ":4"


def test_a_terminal_of_another_encoding_gets_a_picture_and_no_error(tmp_path: Path) -> None:
    file = tmp_path / "ü.yaml"
    file.write_text("apiVersion: davylamp.dev/v1alpha1\nkind: ModelRollout\nmetadata: {name: ü…}\n", encoding="utf-8")
    ended = subprocess.run(
        [PROGRAM, "lint", file], capture_output=True, check=False, env=os.environ | {"PYTHONIOENCODING": "ascii"}
    )
    assert ended.returncode == 2
    assert b"Traceback" not in ended.stderr


def test_the_reference_is_what_the_commands_say() -> None:
    assert (ROOT / reference.PAGE).read_text(encoding="utf-8") == reference.rendered()


def test_a_reference_that_is_out_of_date_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "docs" / "cli.md"
    assert reference.main(["--check", str(page)]) == 1
    assert str(page) in capsys.readouterr().err
    assert reference.main([str(page)]) == 0
    assert reference.main(["--check", str(page)]) == 0
