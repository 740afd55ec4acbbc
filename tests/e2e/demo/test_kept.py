import threading
from pathlib import Path

import pytest

from e2e.demo.serving.kept import kept


def fill(folder: Path) -> None:
    (folder / "made").write_text("whole", encoding="utf-8")


def test_a_folder_is_built_once(tmp_path: Path) -> None:
    builds: list[Path] = []

    def build(folder: Path) -> None:
        builds.append(folder)
        fill(folder)

    for _ in range(2):
        assert (kept(tmp_path / "made-1", build, progress=print) / "made").read_text(encoding="utf-8") == "whole"
    assert len(builds) == 1


def test_a_failed_build_leaves_nothing_and_can_be_tried_again(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        fill(folder)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        kept(tmp_path / "made-1", fail, progress=print)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
    assert (kept(tmp_path / "made-1", fill, progress=print) / "made").exists()


def test_what_a_killed_build_left_behind_goes_away(tmp_path: Path) -> None:
    (tmp_path / "made-1.part-left").mkdir()
    kept(tmp_path / "made-1", fill, progress=print)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["made-1"]


def test_a_second_builder_waits_says_so_and_takes_what_the_first_made(tmp_path: Path) -> None:
    started, waiting, said, builds = threading.Event(), threading.Event(), [], []

    def slowly(folder: Path) -> None:
        builds.append(folder)
        started.set()
        assert waiting.wait(30)
        fill(folder)

    def hear(line: str) -> None:
        said.append(line)
        waiting.set()

    first = threading.Thread(target=kept, args=(tmp_path / "made-1", slowly), kwargs={"progress": print})
    first.start()
    assert started.wait(30)
    second = kept(tmp_path / "made-1", slowly, progress=hear)
    first.join()
    assert (second / "made").exists()
    assert len(builds) == 1
    assert said == ["waiting for another process that builds made-1"]
