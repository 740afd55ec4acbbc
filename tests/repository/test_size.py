"""The size budget: short functions and files are read; long ones are scrolled past."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repository.checkout import files, text

Function = ast.FunctionDef | ast.AsyncFunctionDef

#: A file of tests is read test by test, so it may be longer.
LONGEST_FILE = (("tests", 520), ("", 400))
#: Lines of a function without its docstring, by where it stands; the first that matches counts.
LONGEST_FUNCTION = (("operator/davylamp/core", 40), ("", 60))


def most(limits: tuple[tuple[str, int], ...], path: str) -> int:
    return next(limit for start, limit in limits if path.startswith(start))


def functions(path: Path) -> Iterator[Function]:
    return (node for node in ast.walk(ast.parse(text(path))) if isinstance(node, Function))


def lines(function: Function) -> int:
    first = function.body[0]
    described = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    docstring = (first.end_lineno or 0) - first.lineno + 1 if described else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def positional(function: Function) -> int:
    arguments = function.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    return len([name for name in names if name not in {"self", "cls"}])


def test_no_file_is_too_long() -> None:
    lengths = {str(path): text(path).count("\n") for path in files("*.py")}
    too_long = {path: length for path, length in lengths.items() if length > most(LONGEST_FILE, path)}
    assert too_long == {}


def test_no_function_is_too_long() -> None:
    found = {
        f"{path}:{f.lineno} {f.name}": lines(f)
        for path in files("*.py")
        for f in functions(path)
        if lines(f) > most(LONGEST_FUNCTION, str(path))
    }
    assert found == {}


@pytest.mark.parametrize("package", ["operator", "detectors"])
def test_no_function_takes_many_arguments_by_position(package: str) -> None:
    found = [
        f"{path}:{function.lineno} {function.name}"
        for path in files(f"{package}/*.py")
        for function in functions(path)
        if positional(function) > 4
    ]
    assert found == []
