from __future__ import annotations

import re
from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from davylamp.shadow.exchange import Protocol
from davylamp.shadow.passing import MARK, fits, is_allowed, passed_on, without_credentials
from davylamp.shadow.reception import Arrived
from davylamp.shadow.task import Replay


def allowed(target: str, method: str = "POST", replay: Replay | None = None) -> bool:
    return is_allowed(Arrived(method, target, (), b""), replay or Replay())


@pytest.mark.parametrize(
    "target",
    [
        "/v2/models/credit/infer",
        "/v2/models/credit/versions/3/infer?x=/y",
        "/prefix/of/gateway/v2/models/credit/infer",
        "/v2/models/llm/generate",
        "/v2/models/llm/generate_stream",
        "/v1/models/credit:predict",
        "/v1/models/credit/versions/1:predict",
        "/v1/models/credit/labels/stable:predict",
        "/invocations",
        "/v1/chat/completions",
        "/openai/v1/completions",
        "/v1/embeddings",
        "/predictions/resnet",
        "/predictions/resnet/2.0",
        "/inference.GRPCInferenceService/ModelInfer",
    ],
)
def test_what_predicts_is_replayed(target: str) -> None:
    assert allowed(target)
    assert not allowed(target, "DELETE")
    assert not allowed(target.partition("?")[0] + "x/y/z")


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "",
        "*",
        "/v2/repository/models/credit/load",
        "/v2/models/credit/infer/",
        "/v2/models/a/b/infer",
        "/admin?next=/v2/models/credit/infer",
        "http://elsewhere/v2/models/credit/infer",
        "/v1/fine_tuning/jobs",
        "/inference.GRPCInferenceService/RepositoryModelLoad",
        "/" + "a" * 2000 + "/invocations",
        "/invocations?" + "a" * 9000,
        "/unload#/invocations",
        "/predictions/../models",
        "/predictions/%2E./models",
        "/predictions/..%2fmodels",
    ],
)
def test_what_might_change_something_is_not_replayed(target: str) -> None:
    assert not allowed(target)


def test_a_rollout_may_name_other_methods_and_paths() -> None:
    replay = Replay(methods=frozenset({"GET"}), paths=("/score/*",))

    assert allowed("/score/a", "GET", replay)
    assert not allowed("/score/a", "POST", replay)
    assert not allowed("/invocations", "GET", replay)


@given(
    pattern=st.text(alphabet="a/*:", max_size=8),
    path=st.text(alphabet="a/:*", max_size=8),
)
def test_a_pattern_fits_as_the_regular_expression_of_the_same_meaning(pattern: str, path: str) -> None:
    meaning = "".join(
        {"**": r"[\s\S]*", "*": "[^/]*"}.get(part, re.escape(part)) for part in re.findall(r"\*\*|[\s\S]", pattern)
    )

    assert fits(pattern, path) == bool(re.fullmatch(meaning, path))


def test_a_pattern_of_many_stars_is_no_trap() -> None:
    assert not fits("**a" * 30, "a" * 29 + "b" * 900)
    assert fits("**a" * 30, "a" * 900)


def names(
    *sent: tuple[str, str], protocol: Protocol = Protocol.HTTP, allowed: frozenset[str] = frozenset()
) -> set[str]:
    return {name for name, _ in passed_on(sent, protocol, allowed)}


def test_what_a_model_may_need_is_passed_on_in_order_with_the_mark() -> None:
    sent = (("content-type", "application/json"), ("x-request-id", "1"), ("x-tenant", "a"), ("x-tenant", "b"))

    assert passed_on(sent, Protocol.HTTP, frozenset()) == (*sent, ("x-davylamp-shadow", "1"))


@pytest.mark.parametrize(
    "name",
    [
        "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "proxy-connection", "expect",
        "host", "content-length", "content-encoding", "accept-encoding", "http2-settings",
    ],
)  # fmt: skip
def test_what_belongs_to_one_connection_is_never_passed_on(name: str) -> None:
    assert names((name, "x")) == {MARK[0]}
    assert names((name, "x"), allowed=frozenset({name})) == {MARK[0]}


def test_what_the_connection_header_names_is_not_passed_on() -> None:
    assert names(("connection", "close, X-Hop"), ("x-hop", "1"), ("x-end", "1")) == {"x-end", MARK[0]}
    assert names(("connection", "close"), ("connection", "x-hop"), ("x-hop", "1")) == {MARK[0]}


@pytest.mark.parametrize(
    "name",
    [
        "authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "apikey", "x-auth-token",
        "x-amz-security-token", "x-goog-iap-jwt-assertion", "x-forwarded-client-cert", "x-client-secret",
        "x-envoy-internal", "x-envoy-expected-rq-timeout-ms", "ocp-apim-subscription-key", "x-functions-key",
        "x_api_key", "x-auth-key", "cf-access-jwt-assertion", "x-amzn-oidc-data", "x-session-id", "dpop",
    ],
)  # fmt: skip
def test_credentials_are_passed_on_by_their_exact_name_only(name: str) -> None:
    assert names((name, "x")) == {MARK[0]}
    assert names((name, "x"), allowed=frozenset({name})) == {name, MARK[0]}
    assert names((name, "x"), allowed=frozenset({name[:-1]})) == {MARK[0]}


@pytest.mark.parametrize(
    "name",
    [
        "key", "api_key", "apiKey", "subscription-key", "access_token", "token", "sig", "pwd", "password", "%74oken",
        "X-Amz-Signature", "X-Amz-Credential", "X-Amz-Security-Token", "X-Goog-Signature", "auth[user]",
        "a" * 500 + "_key",
    ],
)  # fmt: skip
def test_credentials_in_the_query_are_passed_on_by_their_exact_name_only(name: str) -> None:
    target = f"/invocations?{name}=hunter2&version=3"

    assert without_credentials(target, frozenset()) == "/invocations?version=3"
    assert without_credentials(target, frozenset({unquote(name).lower()})) == target
    assert without_credentials(target, frozenset({unquote(name)[:-1].lower()})) == "/invocations?version=3"


@pytest.mark.parametrize(
    ("target", "left"),
    [
        ("/a", "/a"),
        ("/a?", "/a?"),
        ("/a?token", "/a"),
        ("/a?token=1&token=2", "/a"),
        ("/a?x=%20+&y;z=1", "/a?x=%20+&y;z=1"),
        ("/a?x=1;token=2&y=3", "/a?x=1&y=3"),
        ("/a?token=1;x=2", "/a?x=2"),
        ("/a?x=token=1", "/a?x=token=1"),
        ("/a?x=1&?token=2", "/a?x=1"),
        ("/a?&&x&", "/a?&&x&"),
    ],
)
def test_the_rest_of_a_query_stays_as_it_is(target: str, left: str) -> None:
    assert without_credentials(target, frozenset()) == left


@given(st.text(alphabet="?&;=%+xtokenTOKEN26", max_size=60))
def test_no_parameter_that_a_server_may_read_as_a_credential_is_left(query: str) -> None:
    left = without_credentials(f"/a?{query}", frozenset()).partition("?")[2]

    for sign in "&;":
        names = {name.lower() for name, _ in parse_qsl(left, keep_blank_values=True, separator=sign)}
        assert not any("token" in name.partition("&")[0].partition(";")[0] for name in names)
    assert without_credentials(f"/a?{left}", frozenset()).partition("?")[2] == left


def test_a_mark_that_came_is_not_passed_on_twice() -> None:
    assert passed_on((("x-davylamp-shadow", "0"),), Protocol.HTTP, frozenset()) == (MARK,)


def test_what_grpc_makes_itself_is_not_passed_on_over_grpc() -> None:
    sent = (("user-agent", "a"), ("content-type", "b"), ("grpc-timeout", "1S"), ("trace-bin", "x"), ("x-tenant", "c"))

    assert names(*sent, protocol=Protocol.GRPC) == {"x-tenant", MARK[0]}
    assert names(*sent) == {"user-agent", "content-type", "grpc-timeout", "trace-bin", "x-tenant", MARK[0]}
