"""Slices of `x-sex` and `x-team` on the route of `httproutes`, and how they come and go."""

from typing import Any

from davylamp.core.model import Ruling, Weight
from davylamp.core.moves import Diversion, Divert, Lower, Prepare, Raise
from davylamp.core.world import RouteView
from davylamp.ports import RouteChange
from davylamp.routers.httproute_changes import changed
from davylamp.routers.httproute_view import view
from tests.davylamp.routers.httproutes import CREDIT, Manifest, baseline, edited, route, rule

ATTEMPT = "a-1"
PREPARE = Prepare(ATTEMPT)
HALF = Raise(ATTEMPT, Weight(50))
BACK = Lower(ATTEMPT, Weight(0), Ruling.ROLLBACK)
WOMEN, MEN, TEAM = Diversion("x-sex", "F"), Diversion("x-sex", "M"), Diversion("X-Team", "1")
ON, OFF = Divert(ATTEMPT, (WOMEN,)), Divert(ATTEMPT, ())
SHADOW = "davylamp-shadow:8090"
SIMPLE = route(rule(baseline()))
HEADER = {"type": "Exact", "name": "x-sex", "value": "F"}


def after(manifest: Any, *changes: RouteChange, epoch: int = 1) -> Any:
    for change in changes:
        manifest = changed(manifest, CREDIT, change, epoch)
    return manifest


def seen(manifest: Any) -> RouteView:
    found = view(manifest, CREDIT)
    assert isinstance(found, RouteView), found
    return found


def unnamed(manifest: Any) -> Any:
    """Return the route as an API server keeps it that knows no names of rules."""
    return edited(manifest, lambda m: [each.pop("name", None) for each in m["spec"]["rules"]])


def asking(*headers: tuple[str, str], path: str = "/", kind: str = "Exact", **more: Any) -> Manifest:
    """Return a match of headers."""
    entries = [{"type": kind, "name": name, "value": value} for name, value in headers]
    return {"path": {"type": "PathPrefix", "value": path}, "headers": entries} | more


RUNNING: Any = after(SIMPLE, PREPARE, HALF)
SLICED: Any = after(RUNNING, ON)
