"""Draw the live view for the README, with the code that draws it in a terminal."""

from __future__ import annotations

import io
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import yaml
from rich.console import Console
from rich.terminal_theme import MONOKAI

from davylamp.cli.view import render_many

#: Without the web font of rich's own frame: the picture shall load nothing.
_FRAME: Final = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def picture(source: Path) -> str:
    """Return the SVG of the rollouts in a file.

    Parameters
    ----------
    source
        YAML with ``at`` (time of the picture) and ``rollouts`` (ModelRollouts as the API server returned them).
    """
    shown: dict[str, Any] = yaml.safe_load(source.read_text(encoding="utf-8"))
    console = Console(
        record=True, width=126, file=io.StringIO(), force_terminal=True, color_system="truecolor", height=100
    )
    console.print(render_many(shown["rollouts"], datetime.fromisoformat(shown["at"])))
    return console.export_svg(
        title="make demo", theme=MONOKAI, code_format=_FRAME, unique_id="live-view", font_aspect_ratio=0.61
    )
