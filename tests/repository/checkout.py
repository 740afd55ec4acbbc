"""What is in the checkout: the files that git knows, and those that would be added next."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


@cache
def files(*patterns: str) -> tuple[Path, ...]:
    """Return the files that git tracks or would add, as paths below ROOT, optionally of some git patterns."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = sorted(set(listed.stdout.split("\0")) - {""})
    return tuple(Path(name) for name in names if (ROOT / name).is_file())


def text(path: Path) -> str:
    """Return the text of a file below ROOT; empty if it is not text."""
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""
