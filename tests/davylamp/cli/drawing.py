"""What a terminal of some width would show."""

from __future__ import annotations

import io
import os
from pathlib import Path

from rich.console import Console, RenderableType

GOLDEN = Path(__file__).parent / "golden"


def drawn(picture: RenderableType, width: int, *, encoding: str = "utf-8", terminal: bool = False) -> str:
    """The text of a picture; colours only on a terminal."""
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict", newline="\n")
    console = Console(
        file=file,
        width=width,
        height=60,
        force_terminal=terminal,
        color_system="standard" if terminal else None,
        highlight=False,
        markup=False,
        emoji=False,
        _environ={},
    )
    console.print(picture)
    file.flush()
    text = file.buffer.getvalue().decode(encoding)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def assert_golden(name: str, text: str) -> None:
    """Compare with the kept picture; with DAVYLAMP_DRAW=1 the new one is kept, to be looked at and committed."""
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("DAVYLAMP_DRAW"):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, f"{path} differs; draw it anew with DAVYLAMP_DRAW=1 and look"
