"""Secrets, read with the operator's own rights."""

import base64
from collections.abc import Callable

import pytest

from davylamp.errors import SpecError
from davylamp.runtime.kube import Kube
from davylamp.runtime.secret import secret_value
from e2e.lab import Lab
from tests.support.installation import NAMESPACE

PLANTED = "a-secret-that-must-not-be-shown"
Maker = Callable[..., None]


@pytest.fixture
def make(control_plane: Lab) -> Maker:
    def make(name: str, **data: bytes) -> None:
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        control_plane.api.apply(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE}, "data": encoded}
        )

    return make


async def test_a_value_is_read_without_the_line_end_around_it(own_kube: Kube, make: Maker) -> None:
    make("token", token=f"  {PLANTED}\n".encode())
    assert await secret_value(own_kube, NAMESPACE, {"name": "token", "key": "token"}) == PLANTED


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("other", b"", "has no key token: add it, or correct the reference"),
        ("token", b"\xff\xfe" + PLANTED.encode(), "not a text"),
        ("token", b" \n", "empty"),
    ],
)
async def test_a_value_that_is_none_is_named_and_not_shown(
    own_kube: Kube, make: Maker, key: str, value: bytes, message: str
) -> None:
    make(f"broken-{key}-{len(value)}", **{key: value})
    with pytest.raises(SpecError, match=message) as caught:
        await secret_value(own_kube, NAMESPACE, {"name": f"broken-{key}-{len(value)}", "key": "token"})
    assert PLANTED not in str(caught.value)


async def test_a_secret_that_does_not_exist_is_named(own_kube: Kube) -> None:
    with pytest.raises(SpecError, match=f"Secret {NAMESPACE}/none does not exist: create it with the key token"):
        await secret_value(own_kube, NAMESPACE, {"name": "none", "key": "token"})


async def test_a_secret_of_another_namespace_is_out_of_reach(admin_kube: Kube, make: Maker, lab_namespace: str) -> None:
    make("token", token=PLANTED.encode())
    with pytest.raises(SpecError, match="not the path of an object"):
        await secret_value(admin_kube, lab_namespace, {"name": f"../../{NAMESPACE}/secrets/token", "key": "token"})


async def test_without_the_right_the_message_says_what_is_refused(own_kube: Kube, lab_namespace: str) -> None:
    with pytest.raises(SpecError, match='cannot get resource "secrets"'):
        await secret_value(own_kube, lab_namespace, {"name": "token", "key": "token"})
