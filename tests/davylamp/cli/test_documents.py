from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from davylamp.cli import documents as yaml_within_limits
from davylamp.cli.documents import Document, UnreadableError, documents

BOMB = "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (BOMB, 2, "aliases"),
        ("a: 1\nb:\n  c: 1\n  c: 2\n", 4, "'c' stands here twice"),
        ("a: [1, 2\nb: 3\n", 2, "not YAML"),
        ("a: \x00\n", 1, "not YAML"),
        ("{" * 100 + "\n", 1, "more than 40 deep"),
        ("[" * 5000, 1, "more than 40 deep"),
        ("---\na: 1\n" * 501, 1001, "more than 500 documents"),
        ("a: !!python/object/apply:os.system [ls]\n", 1, "not YAML"),
        ("? [a]\n: 1\n", 1, "not YAML"),
        ("a: 2026-99-99\n", 1, "cannot be read"),
        ("x" * (1 << 20) + "yz", 1, "larger than"),
    ],
)
def test_what_is_no_manifest_is_refused_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(UnreadableError, match=words) as caught:
        documents(text)
    assert caught.value.line == line


@given(text=st.text() | st.text(alphabet="&*!|>-?:[]{}#,'\"%@ \nab0"))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        line = max(document.line(()) for document in documents(text) or [Document(None, {})])
    except UnreadableError as error:
        line = error.line
    assert line >= 1


def test_a_value_has_its_line_and_what_is_missing_that_of_its_parent() -> None:
    text = "# head\nkind: X\nspec:\n  steps:\n    - weight: 5\n    - weight: 2\n---\nkind: Y\n"
    first, second = documents(text)

    assert first.line(("spec", "steps", 1, "weight")) == 6
    assert first.line(("spec", "steps", 1, "bake")) == 6
    assert first.line(("spec", "gates", "errors")) == 3
    assert second.line(("kind",)) == 8


def test_documents_without_content_are_left_out() -> None:
    assert [document.value for document in documents("---\n---\na: 1\n---\n# nothing\n")] == [{"a": 1}]


def test_the_limits_let_a_large_manifest_pass() -> None:
    text = "---\n".join("a: 1\n" for _ in range(yaml_within_limits.MAX_DOCUMENTS))
    assert len(documents(text)) == yaml_within_limits.MAX_DOCUMENTS
