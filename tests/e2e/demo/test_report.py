from io import StringIO

import pytest
from rich.console import Console

from e2e.demo.report import print_messages, print_results, traffic_line
from e2e.demo.results import result
from e2e.demo.scenario import CASES
from e2e.demo.show import Screen
from e2e.demo.traffic.generator import Snapshot
from e2e.demo.traffic.history import Served
from e2e.demo.watching import Witness
from tests.e2e.demo.played import ALL_TOLD, FLAKY, INT8, after, promoted, rolled_back, rollout, traffic

RESULTS = (
    result(INT8, promoted(), traffic(INT8, 3), None),
    result(FLAKY, rolled_back(FLAKY), traffic(FLAKY, 12, failed=(15,)), after(11)),
)


def console(width: int, *, terminal: bool = False) -> Console:
    return Console(file=StringIO(), width=width, height=30, force_terminal=terminal, color_system=None, highlight=False)


def text_of(screen: Console) -> str:
    assert isinstance(screen.file, StringIO)
    return screen.file.getvalue()


@pytest.mark.parametrize("width", [80, 110, 160])
def test_no_figure_is_cut_whatever_the_terminal_is_wide(width: int) -> None:
    screen = console(width)
    print_results(screen, RESULTS)
    shown = text_of(screen)
    for figure in ("int8", "Promoted", "flaky", "RolledBack", "9.0 s", "9.5 s", "4.0 s", "errors in numbers"):
        assert figure in shown
    assert max(map(len, shown.splitlines())) <= width


def test_each_message_takes_one_line_that_is_cut_on_a_terminal_only() -> None:
    plain, terminal = console(60), console(60, terminal=True)
    print_messages(plain, ALL_TOLD)
    print_messages(terminal, ALL_TOLD)
    assert len(text_of(plain).splitlines()) == len(text_of(terminal).splitlines()) == 1 + len(ALL_TOLD)
    assert "serves all traffic" in text_of(plain)
    assert "serves all traffic" not in text_of(terminal)


def test_the_books_of_all_traffic_are_summed_up() -> None:
    books = Snapshot(1000, 990, 6, 4, 12, {"": Served(requests=2), "fp32": Served(requests=988)})
    assert traffic_line([books, books]) == (
        "2,000 requests were due, 1,980 were answered, 24 with an error (4 of these by no model server), "
        "12 were not sent, since too many were under way"
    )


def test_without_a_terminal_a_change_is_one_line_and_numbers_alone_are_none() -> None:
    witness, plain = Witness(CASES), console(160)
    screen = Screen(plain)
    for phase in ("Progressing", "Progressing", "Promoted"):
        witness.saw_rollout(rollout(INT8, phase))
        screen.changed(witness)
    lines = text_of(plain).splitlines()
    assert [line.split(" s  ")[1].split(":")[0] for line in lines] == ["demo/int8 Progressing", "demo/int8 Promoted"]


def test_on_a_terminal_all_three_are_drawn() -> None:
    witness = Witness(CASES)
    for case in CASES:
        witness.saw_rollout(rollout(case, "Progressing"))
    for height in (100, 12):
        drawn = Console(file=StringIO(), width=100, height=height, force_terminal=True, highlight=False)
        with Screen(drawn).watching(witness, ALL_TOLD):
            pass
        shown = text_of(drawn)
        assert all(case.name in shown for case in CASES)
        assert ("latency" in shown) is (height == 100)
