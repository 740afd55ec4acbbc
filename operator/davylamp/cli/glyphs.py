"""Signs and colours, in Unicode and for terminals that have none."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from rich.console import ConsoleOptions

from davylamp.core.model import Phase, Verdict

PHASE_STYLES: Final = MappingProxyType(
    {
        Phase.PENDING: "dim",
        Phase.PROGRESSING: "cyan",
        Phase.PAUSED: "blue",
        Phase.HELD: "yellow",
        Phase.PROMOTING: "cyan",
        Phase.PROMOTED: "green",
        Phase.ROLLING_BACK: "red",
        Phase.ROLLED_BACK: "red",
    }
)
VERDICT_STYLES: Final = MappingProxyType(
    {
        Verdict.REGRESSED: "bold red",
        Verdict.SOURCE_DOWN: "yellow",
        Verdict.NO_DATA: "yellow",
        Verdict.INCONCLUSIVE: "cyan",
        Verdict.NON_INFERIOR: "green",
    }
)


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of signs, each of them one column wide.

    Parameters
    ----------
    phases, verdicts
        A sign for each phase and verdict.
    done, current, ahead
        Rungs of the ladder.
    pause
        A rung that waits.
    between
        Between rungs, and between the two variants.
    full, empty, left, right
        Parts of a bar.
    partial
        Parts of a bar's last column, the thinnest first; empty where there are none.
    unknown, dash, minus, dots, warning, middle
        Signs in text.
    """

    phases: MappingProxyType[Phase, str]
    verdicts: MappingProxyType[Verdict, str]
    done: str
    current: str
    ahead: str
    pause: str
    between: str
    full: str
    empty: str
    left: str
    right: str
    partial: str
    unknown: str
    minus: str
    warning: str
    middle: str
    line: str


UNICODE: Final = Glyphs(
    phases=MappingProxyType(dict(zip(Phase, "◌◷‖⚠▲✔▼✖", strict=True))),
    verdicts=MappingProxyType(dict(zip(Verdict, "✖⚠?◌✔", strict=True))),
    done="✔",
    current="▶",
    ahead="◌",
    pause="‖",
    between="→",
    full="█",
    empty="░",
    left="▕",
    right="▏",
    partial="▏▎▍▌▋▊▉",
    unknown="–",
    minus="−",
    warning="⚠",
    middle="·",
    line="─",
)
ASCII: Final = Glyphs(
    phases=MappingProxyType(dict(zip(Phase, "o>=!^+vx", strict=True))),
    verdicts=MappingProxyType(dict(zip(Verdict, "x!?o+", strict=True))),
    done="+",
    current=">",
    ahead="o",
    pause="=",
    between="->",
    full="#",
    empty=".",
    left="[",
    right="]",
    partial="",
    unknown="-",
    minus="-",
    warning="!",
    middle="|",
    line="-",
)


def glyphs_for(options: ConsoleOptions) -> Glyphs:
    """Return the signs that a terminal can show."""
    return ASCII if options.ascii_only else UNICODE
