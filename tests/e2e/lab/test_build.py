import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path

import pytest

from e2e.lab import LabError, recipes
from e2e.lab.build import build, executable
from e2e.lab.progress import Progress
from e2e.lab.recipes import Program
from e2e.lab.toolchain import go_numbers

MAIN = 'package main\n\nimport "os"\n\nfunc main() { os.Stdout.WriteString("hello") }\n'


@pytest.fixture
def hello(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """A program that needs no module but its own, to be built by the real Go."""
    folder = tmp_path / "go" / "hello"
    folder.mkdir(parents=True)
    (folder / "go.mod").write_text("module hello.test/hello\n\ngo 1.26.0\n", encoding="utf-8")
    (folder / "go.sum").write_text("", encoding="utf-8")
    (folder / "main.go").write_text(MAIN, encoding="utf-8")
    monkeypatch.setattr(recipes, "GO_MODULES", tmp_path / "go")
    monkeypatch.setattr("e2e.lab.build.MANIFESTS", ())
    monkeypatch.setattr(recipes, "module_version", lambda *_: "v1.0.0")
    monkeypatch.setenv("DAVYLAMP_CACHE", str(tmp_path / "cache"))
    recipes._digest.cache_clear()
    return Program("hello", "hello", "hello.test/hello", "hello.test/hello")


def test_builds_a_program_once_and_finds_it_again(hello: Program, capsys: pytest.CaptureFixture[str]) -> None:
    build([hello])
    assert "[1/1] hello v1.0.0: built in" in capsys.readouterr().err
    assert subprocess.run([executable(hello)], capture_output=True, check=True).stdout == b"hello"
    build([hello])
    assert capsys.readouterr().err == ""


def test_two_builds_at_once_leave_one_program_and_nothing_half_done(hello: Program, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(build, [[hello], [hello]]))
    left = {file.name for file in (tmp_path / "cache" / "bin").iterdir() if not file.name.endswith((".lock", ".log"))}
    assert left == {executable(hello).name}


def test_a_failed_build_says_why_and_leaves_no_program(hello: Program, tmp_path: Path) -> None:
    (tmp_path / "go" / "hello" / "main.go").write_text("package main\n\nfunc main() { missing() }\n", encoding="utf-8")
    with pytest.raises(LabError, match=r"(?s)hello could not be built.*undefined: missing"):
        build([hello])
    with pytest.raises(LabError, match=r"hello is not built: run `python -m e2e\.lab build hello`"):
        executable(hello)


def test_a_program_that_is_not_built_is_asked_for_by_name(hello: Program) -> None:
    with pytest.raises(LabError, match="is not built"):
        executable(hello)


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal_is_one_line_that_ends_as_a_sentence() -> None:
    stream = Terminal()
    with Progress(3, stream).step(2, "etcd v3.7.3"):
        pass
    assert stream.getvalue().endswith("\r\x1b[K[2/3] etcd v3.7.3: built in 0 s\n")


def test_progress_elsewhere_is_plain_and_says_when_it_failed() -> None:
    stream = StringIO()
    with pytest.raises(LabError), Progress(1, stream).step(1, "etcd v3.7.3"):
        raise LabError("no")
    assert stream.getvalue().splitlines() == ["[1/1] etcd v3.7.3: building", "[1/1] etcd v3.7.3: failed after 0 s"]


@pytest.mark.parametrize(
    ("said", "numbers"), [("go1.26.8", (1, 26, 8)), ("go1.27", (1, 27, 0)), ("go1.27rc1", (1, 27, 0)), ("", (0, 0, 0))]
)
def test_go_versions_compare_as_numbers(said: str, numbers: tuple[int, int, int]) -> None:
    assert go_numbers(said) == numbers


def test_a_machine_without_go_is_told_where_go_comes_from(tmp_path: Path) -> None:
    program = "from e2e.lab.toolchain import find_go; import sys; sys.executable = sys.argv[1]; find_go()"
    nowhere = {**os.environ, "PATH": str(tmp_path)}
    outcome = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "python")],
        env=nowhere,
        capture_output=True,
        text=True,
        check=False,
    )
    assert re.search(r"takes Go 1\.26\.\d+ or newer \(there is none\): install the project's", outcome.stderr)


def test_go_is_the_same_with_and_without_the_environment_on_path() -> None:
    program = "from e2e.lab.toolchain import find_go; print(find_go())"
    paths = [os.environ["PATH"], os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])]
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for path in paths
    }
    assert len(found) == 1
