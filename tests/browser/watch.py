"""Listen to a page for anything a user's console would complain about."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request, Response

REPORT_POLICY_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) => {
  console.error(`policy violation: ${event.violatedDirective} blocked ${event.blockedURI}`);
});
"""


@dataclass(frozen=True)
class Watch:
    """A page and what was heard from it."""

    page: Page
    answered: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    def complaints(self) -> list[str]:
        own_host = urlsplit(self.page.url).netloc
        others = sorted(self.hosts - {own_host})
        return [*self.answered, *(f"request to another host: {host}" for host in others)]


def watched_page(context: BrowserContext) -> Watch:
    """A new page whose errors, policy violations, failed and foreign requests are noted."""
    watch = Watch(context.new_page())
    watch.page.add_init_script(REPORT_POLICY_VIOLATIONS)

    def on_console(message: ConsoleMessage) -> None:
        if message.type == "error":
            watch.answered.append(f"console: {message.text} ({message.location['url']})")

    def on_request(request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob", "about"):
            watch.hosts.add(address.netloc)

    def on_response(response: Response) -> None:
        if response.status >= 400:
            watch.answered.append(f"response: {response.status} {response.url}")

    watch.page.on("console", on_console)
    watch.page.on("pageerror", lambda error: watch.answered.append(f"page error: {error}"))
    watch.page.on("request", on_request)
    watch.page.on("response", on_response)
    return watch
