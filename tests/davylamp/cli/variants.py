"""Variants on loopback, in threads of their own, for commands that call them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: Answers a request: its path, its headers and its body, with a status and a body.
Answering = Callable[[str, dict[str, str], bytes], tuple[int, bytes]]


@contextmanager
def variant(answering: Answering) -> Iterator[str]:
    """Serve a variant, and yield its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, answer = answering(self.path, headers, body)
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_PUT = do_POST  # noqa: N815 - as the server calls them

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def scores(shift: float = 0.0) -> Answering:
    """Answer with the score in the request, shifted."""

    def answer(_: str, __: dict[str, str], body: bytes) -> tuple[int, bytes]:
        score = min(1.0, json.loads(body)["inputs"][0]["data"][0] + shift)
        output = {"name": "probability", "datatype": "FP64", "shape": [1, 1], "data": [score]}
        return 200, json.dumps({"model_name": "credit", "outputs": [output]}).encode()

    return answer


def asking(score: float, **more: Any) -> str:
    """Return a line that asks for a score."""
    tensor = {"name": "x", "datatype": "FP64", "shape": [1, 1], "data": [score]}
    return json.dumps({"path": "/v2/models/credit/infer", "body": {"inputs": [tensor]}, **more})
