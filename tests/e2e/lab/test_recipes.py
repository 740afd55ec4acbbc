from dataclasses import replace
from pathlib import Path

import pytest

from e2e.lab import LabError, recipes
from e2e.lab.recipes import PROGRAMS, Program, module_version, needed_go, program


def module(folder: Path, go_mod: str = "module m\n\ngo 1.26.0\n\nrequire example.test/thing v1.2.3\n") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "go.mod").write_text(go_mod, encoding="utf-8")
    (folder / "go.sum").write_text("", encoding="utf-8")
    recipes._digest.cache_clear()
    return folder


@pytest.fixture
def thing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.setattr(recipes, "GO_MODULES", tmp_path)
    module(tmp_path / "group")
    stamps = ("example.test/thing.Version={version}", "example.test/thing.Minor={minor}")
    return Program("thing", "group", "example.test/thing", "example.test/thing", stamps=stamps)


def test_the_same_recipe_has_the_same_name(thing: Program) -> None:
    assert thing.file_name("go1.26.8") == thing.file_name("go1.26.8")
    assert thing.file_name("go1.26.8").startswith("thing-")


def test_another_go_another_flag_or_another_module_makes_another_name(thing: Program, tmp_path: Path) -> None:
    names = {
        thing.file_name("go1.26.8"),
        thing.file_name("go1.26.9"),
        replace(thing, tags=("x",)).file_name("go1.26.8"),
    }
    module(tmp_path / "group", "module m\n\ngo 1.26.0\n\nrequire example.test/thing v1.2.4\n")
    names.add(thing.file_name("go1.26.8"))
    (tmp_path / "group" / "go.sum").write_text("changed", encoding="utf-8")
    recipes._digest.cache_clear()
    names.add(thing.file_name("go1.26.8"))
    assert len(names) == 5


def test_the_linker_stamps_the_version_that_go_mod_asks_for(thing: Program) -> None:
    assert thing.flags[-1] == "-ldflags=-s -w -X example.test/thing.Version=v1.2.3 -X example.test/thing.Minor=2"


def test_a_module_that_go_mod_does_not_require_is_named(thing: Program) -> None:
    with pytest.raises(LabError, match=r"does not require example\.test/other"):
        module_version(thing.folder, "example.test/other")


def test_an_unknown_program_is_refused_with_the_known_ones() -> None:
    with pytest.raises(LabError, match="no recipe builds 'istio'; known are etcd, kube-apiserver"):
        program("istio")


@pytest.mark.parametrize("recipe", PROGRAMS, ids=lambda recipe: recipe.name)
def test_every_recipe_has_its_module_pinned_with_sums(recipe: Program) -> None:
    assert recipe.version.startswith("v")
    assert needed_go(recipe.folder) >= (1, 26, 0)
    assert f"{recipe.module} {recipe.version} h1:" in (recipe.folder / "go.sum").read_text(encoding="utf-8")


def test_a_go_mod_without_a_go_line_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="has no line `go"):
        needed_go(module(tmp_path / "bad", "module m\n"))
