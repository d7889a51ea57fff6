"""Which names of this server no stranger can own, so that a page at them is our own page.

Whoever owns a name can let it point to this machine after his page was loaded from it (DNS
rebinding): to the browser our answers are then of his own origin. What he cannot do is to own a
number, a name of this machine or network, or a certificate for a name that is not his.
"""

from __future__ import annotations

import functools
import ipaddress
import socket
from collections.abc import Collection
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

# Names in the domains of RFC 6761, 6762 and 8375 and those that RFC 6762 says networks use can be
# registered by nobody.
PRIVATE_DOMAINS = (
    *("localhost", "local", "internal", "test", "example", "invalid", "home.arpa"),
    *("intranet", "private", "corp", "home", "lan", "localdomain"),
)
_RESOLVER = Path("/etc/resolv.conf")


def split_origin(origin: str) -> SplitResult | None:
    """The parts of a request's Origin; None when it is none."""
    try:
        parts = urlsplit(origin)
        _ = parts.port
    except ValueError:
        return None
    return parts if parts.hostname else None


def is_trusted(page: SplitResult, allowed: Collection[str] = ()) -> bool:
    """Whether a page at this address is ours; ``allowed`` are names the user vouches for."""
    name = (page.hostname or "").rstrip(".")
    # Behind TLS the name is proven by a certificate, which we have none of: a proxy has.
    if page.scheme == "https" or "." not in name or _is_number(name):
        return True
    return any(
        name == domain or name.endswith("." + domain)
        for domain in (*PRIVATE_DOMAINS, *own_domains(), *(one.lower() for one in allowed))
    )


def may_read(host: str, site: str | None, allowed: Collection[str]) -> bool:
    """Whether a page at ``host``, the header of its request, may be one of ours.

    To a browser he who owns the name is of our own origin, and may read what we answer. At https
    addresses, which take a certificate, browsers send ``Sec-Fetch-Site``, and no page can.
    """
    if site is not None or not host:
        return True
    page = split_origin(f"http://{host}")
    return page is not None and is_trusted(page, allowed)


def listens_for_others(host: str | None, *, bind_all: bool) -> bool:
    """Whether a TensorBoard with these options can be reached from other machines."""
    if bind_all or not host:
        return bind_all
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost"


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True


@functools.cache
def own_domains() -> tuple[str, ...]:
    """This machine's names, and the domains it lies in or looks names up in."""
    names = {socket.gethostname().lower(), socket.getfqdn().lower()}
    # a.b.example.com lies in b.example.com; its own domain's owner is no stranger either.
    domains = {name.partition(".")[2] for name in names}
    try:
        for line in _RESOLVER.read_text(encoding="utf-8", errors="replace").splitlines():
            word, *rest = line.split() or [""]
            if word in ("search", "domain"):
                domains.update(one.lower().strip(".") for one in rest)
    except OSError:
        pass
    # A domain of one label is the whole of com; only a full one belongs to somebody.
    return tuple(sorted({*names, *(domain for domain in domains if "." in domain)} - {""}))
