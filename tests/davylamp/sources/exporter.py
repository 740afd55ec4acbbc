"""A target whose counters go up by known amounts, scrape by scrape, with restarts and scrapes that fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from aiohttp import web

#: What a scrape shows; None is a scrape that fails.
Page = Mapping[str, int] | None


class Exporter:
    """Serves one page for each scrape, and the last one ever after.

    Parameters
    ----------
    pages
        At least one, the last of them a page.
    """

    def __init__(self, pages: Sequence[Page]) -> None:
        self._pages = list(pages)
        self._served = 0
        self.address = ""
        self.all_served = asyncio.Event()

    async def scrape(self, _: web.Request) -> web.Response:
        page = self._pages[min(self._served, len(self._pages) - 1)]
        self._served += 1
        if self._served > len(self._pages):  # a scrape after the last page: that page is in the database for sure
            self.all_served.set()
        if page is None:
            return web.Response(status=500)
        return web.Response(text="".join(f"{series} {value}\n" for series, value in page.items()))


@asynccontextmanager
async def exporting(*exporters: Exporter) -> AsyncIterator[None]:
    """Let exporters listen, each on a free port of loopback."""
    runners = []
    try:
        for exporter in exporters:
            application = web.Application()
            application.router.add_get("/metrics", exporter.scrape)
            runner = web.AppRunner(application, shutdown_timeout=0.1)
            await runner.setup()
            runners.append(runner)
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            exporter.address = f"127.0.0.1:{runner.addresses[0][1]}"
        yield
    finally:
        for runner in runners:
            await runner.cleanup()
