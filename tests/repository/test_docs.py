"""Documentation that would mislead a reader: links that lead nowhere, examples that do not apply, pages out of date."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from davylamp.api.v1alpha1.kinds import API_VERSION, KINDS
from davylamp.core.model import Phase, Reason
from docs import generate
from tests.repository.checkout import ROOT, files, text

PAGES = files("README.md", "CHANGELOG.md", "docs/*.md")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
MAKE = re.compile(r"\bmake ([a-z][a-z-]*)")
_SPECS = {kind.name: kind.spec for kind in KINDS}


@cache
def anchors(path: Path) -> frozenset[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    prose = BLOCK.sub("", text(path))
    headings = re.findall(r"^#{1,6} +(.+)$", prose, re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


def links() -> list[tuple[Path, str]]:
    return [(page, target) for page in PAGES for target in LINK.findall(BLOCK.sub("", text(page)))]


def resources() -> Iterator[tuple[str, dict[str, Any]]]:
    """Return every resource of Davylamp's that stands in a page or an example."""
    sources = [(str(page), body) for page in PAGES for kind, body in BLOCK.findall(text(page)) if kind == "yaml"]
    sources += [(str(path), text(path)) for path in files("docs/examples/*.yaml")]
    for name, source in sources:
        for document in yaml.safe_load_all(source):
            if isinstance(document, dict) and document.get("apiVersion") == API_VERSION:
                yield f"{name}: {document['kind']} {document['metadata']['name']}", document


@pytest.mark.parametrize(("page", "target"), links(), ids=str)
def test_a_link_leads_somewhere(page: Path, target: str) -> None:
    address, _, anchor = target.partition("#")
    if address.startswith(("https:", "mailto:")):
        return
    goal = (page.parent / address) if address else page
    assert (ROOT / goal).exists(), f"{page} links to {target}"
    if anchor:
        assert anchor in anchors(Path((ROOT / goal).resolve().relative_to(ROOT))), f"{page} links to {target}"


@pytest.mark.parametrize(("name", "manifest"), [pytest.param(*found, id=found[0]) for found in resources()])
def test_a_resource_in_the_documentation_would_be_accepted(name: str, manifest: dict[str, Any]) -> None:
    assert isinstance(_SPECS[manifest["kind"]].parse(manifest["spec"]), _SPECS[manifest["kind"]]), name


def test_the_documentation_shows_every_kind() -> None:
    assert {manifest["kind"] for _, manifest in resources()} == set(_SPECS)


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", text(Path("Makefile")), re.MULTILINE))
    named = {name for page in PAGES for _, body in BLOCK.findall(text(page)) for name in MAKE.findall(body)}
    named |= {name for page in PAGES for span in re.findall(r"`([^`\n]+)`", text(page)) for name in MAKE.findall(span)}
    assert named - targets == set()


def test_generated_pages_are_what_the_code_says() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "docs.generate", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_a_page_that_is_out_of_date_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "rendered", lambda: {Path("docs/reference/reasons.md"): "other"})
    assert generate.main(["--check"]) == 1
    assert "docs/reference/reasons.md" in capsys.readouterr().err


@pytest.mark.parametrize(("enum", "words"), [("Reason", list(Reason)), ("Phase", list(Phase))])
def test_every_word_of_a_status_is_explained(enum: str, words: list[str]) -> None:
    explained = {member.value: member.comment for member in generate.members(enum)}
    assert set(explained) == set(words)
    assert [word for word, comment in explained.items() if len(comment) < 15] == []


def test_every_decision_record_says_why() -> None:
    records = files("docs/adr/[0-9]*.md")
    assert [int(path.name[:4]) for path in records] == list(range(1, len(records) + 1))
    for path in records:
        assert re.search(r"^## Decision$.*^## Why$.*^## Consequences$", text(path), re.MULTILINE | re.DOTALL), path
        assert re.search(rf"\({path.name}\)", text(Path("docs/adr/README.md"))), path
