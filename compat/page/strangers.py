"""Pages of other origins in the same browser: they can change nothing and read nothing; and names from clients are harmless."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import ottla

from ..support.suite import Suite
from .chromium import Window
from .scene import member
from .walk import open_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TOKEN = "of-the-listener"
REFUSED, ASKED_WHO = 403, 401
MARKUP = "\"'><img src=x onerror=window.hacked=1><script>window.hacked=1</script>"
STRANGERS = ("127.0.0.1", "localhost", "stranger.test")
"""Hosts of foreign pages: the same site to cookies, which ignore ports; another name of this machine; another site."""

FETCHES = """async (root) => {
    const body = JSON.stringify({topic: "planted"});
    const tried = [];
    for (const credentials of ["include", "omit"]) for (const [path, options] of [
        ["/", {}], ["/", {mode: "no-cors"}], ["/?events", {}], ["/topics/orders", {}], ["/v1/topics", {}],
        ["/v1/topics", {mode: "no-cors"}], ["/metrics", {}], ["/healthz", {}], ["/v1/openapi.json", {}], ["/static/page.js", {}],
        ["/v1/topics", {method: "POST", body, headers: {"Content-Type": "application/json"}}],
        ["/v1/topics", {method: "POST", body, headers: {"Content-Type": "application/json", Authorization: "Bearer guess"}}],
        ["/v1/topics", {method: "POST", body, mode: "no-cors"}],
        ["/v1/topics", {method: "POST", body: new Blob([body]), mode: "no-cors"}],
        ["/v1/clock/advance", {method: "POST", body: JSON.stringify({by_ms: 1000000000}), mode: "no-cors"}],
        ["/v1/restart", {method: "POST", mode: "no-cors"}], ["/v1/reset", {method: "POST", mode: "no-cors"}],
        ["/v1/topics/orders", {method: "DELETE"}], ["/login", {method: "POST", mode: "no-cors"}],
    ]) {
        const answer = await fetch(root + path, {credentials, ...options}).catch(() => null);
        if (answer && answer.type !== "opaque") tried.push([path, options.method ?? "GET", credentials, answer.status]);
    }
    navigator.sendBeacon(root + "/v1/topics", body);
    return tried;
}"""
"""A script that sends all kinds of requests, and returns those whose answer it may read."""
LOADS = """async (root) => {
    const loaded = [];
    const tried = (what, place, element) => new Promise((done) => {
        element.onload = () => { loaded.push(what); done(); };
        element.onerror = done;
        Object.assign(element, place);
        document.body.append(element);
    });
    await tried("image", {src: root + "/static/icon.svg"}, new Image());
    for (const path of ["/static/page.js", "/v1/topics", "/"])
        await tried("script " + path, {src: root + path}, document.createElement("script"));
    await tried("style", {rel: "stylesheet", href: root + "/static/page.css"}, document.createElement("link"));
    for (const withCredentials of [true, false]) await new Promise((done) => {
        const source = new EventSource(root + "/?events", {withCredentials});
        source.onopen = () => { loaded.push("events"); source.close(); done(); };
        source.onerror = () => { source.close(); done(); };
    });
    await new Promise((done) => {
        const socket = new WebSocket(root.replace("http", "ws") + "/");
        socket.onopen = () => { loaded.push("web socket"); done(); };
        socket.onerror = done;
    });
    return loaded;
}"""
FRAMES = """async (root) => {
    const seen = [];
    const framed = (frame, begin) => new Promise((done) => {
        frame.onload = () => {
            try { if (frame.contentDocument?.body?.textContent) seen.push(frame.contentDocument.body.textContent); } catch {}
            done();
        };
        frame.name = "frame" + document.querySelectorAll("iframe").length;
        if (!begin) frame.src = root + "/";
        document.body.append(frame);
        if (begin) begin(frame.name);
    });
    await framed(document.createElement("iframe"));
    for (const enctype of ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"])
        for (const path of ["/v1/topics", "/v1/topics/orders/compact", "/v1/reset", "/login"])
            await framed(document.createElement("iframe"), (target) => {
                const form = Object.assign(document.createElement("form"), {method: "post", enctype, target, action: root + path});
                form.append(Object.assign(document.createElement("input"), {name: '{"topic": "planted", "x": "', value: '"}'}));
                document.body.append(form);
                form.submit();
            });
    const alone = document.createElement("iframe");
    alone.sandbox = "allow-scripts";
    alone.srcdoc = `<script>fetch("${root}/v1/topics", {method: "POST", mode: "no-cors", body: '{"topic": "planted"}'})</` + "script>";
    await new Promise((done) => { alone.onload = done; document.body.append(alone); });
    return seen;
}"""


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<!doctype html><title>stranger</title><body>a page of somebody else"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def somebody_else() -> Iterator[int]:
    """Yield the port of another server on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def change_nothing(suite: Suite, browser: Browser, *, quick: bool = False) -> None:
    """Check that foreign pages change nothing, without and with a token of the listener, in a browser that has shown it."""
    with somebody_else() as port:
        for token in (None, TOKEN):
            with (
                ottla.Broker(admin="127.0.0.1:0", admin_token=token) as broker,
                Window(browser) as page,
            ):
                broker.create_topic("orders", 1, {"cleanup.policy": "compact"})
                with_one = "with a token" if token else "without a token"
                if token:
                    log_in(suite, page, broker)
                for name in STRANGERS[::2] if quick else STRANGERS:
                    attack(suite, page, broker, f"http://{name}:{port}", f"{with_one}, from {name}")
                rebound(suite, page, broker, with_one, has_token=token is not None)


def log_in(suite: Suite, page: Page, broker: ottla.Broker) -> None:
    """Log in as a person does: with a wrong token, then the right one; then read and change."""
    root = f"http://{broker.admin}"
    page.goto(root + "/topics/orders")
    suite.check("with a token, nothing is shown before it", "orders" not in page.content())
    page.get_by_label("Token").fill("wrong")
    page.keyboard.press("Enter")
    page.get_by_text("Invalid token.").wait_for()
    page.get_by_label("Token").fill(TOKEN)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="orders").wait_for()
    (cookie,) = page.context.cookies()
    kept = {name: cookie.get(name) for name in ("httpOnly", "sameSite", "path", "expires", "domain")}
    expected = {"httpOnly": True, "sameSite": "Strict", "path": "/", "expires": -1, "domain": "127.0.0.1"}
    suite.equal("the cookie is for this browser's session alone, and for no script", expected, kept)
    suite.check("it is not the token", TOKEN not in json.dumps(cookie))
    header = f"{cookie.get('name')}={cookie.get('value')}"
    suite.equal("the cookie alone changes nothing", ASKED_WHO, posted(root, {"Cookie": header}))
    open_page(page, root + "/topics")
    page.get_by_label("Name").fill("made-here")
    page.get_by_role("button", name="Create", exact=True).click()
    page.get_by_role("link", name="made-here", exact=True).wait_for()
    suite.check("a client that has shown it may make changes", True)


def posted(root: str, headers: dict[str, str]) -> int:
    """Return the status of a topic's creation by a program."""
    body = json.dumps({"topic": "planted"}).encode()
    request = Request(root + "/v1/topics", body, {"Content-Type": "application/json", **headers})
    try:
        with urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


def attack(suite: Suite, page: Page, broker: ottla.Broker, stranger: str, what: str) -> None:
    """Try everything that a page of another origin can."""
    root, statuses = f"http://{broker.admin}", set()
    names, began_ms = [each.name for each in broker.topics()], broker.clock.now_ms()
    page.goto(stranger)

    def seen(response: object) -> None:
        if response.url.startswith(root):  # type: ignore[attr-defined]
            statuses.add(response.status)  # type: ignore[attr-defined]

    page.on("response", seen)
    suite.equal(f"{what}: no response can be read", [], page.evaluate(FETCHES, root))
    suite.equal(f"{what}: nothing is loaded", [], page.evaluate(LOADS, root))
    suite.equal(f"{what}: nothing is seen in a frame", [], page.evaluate(FRAMES, root))
    page.evaluate("(root) => { document.body.innerHTML = `<a href='${root}/topics'>Come</a>`; }", root)
    page.get_by_role("link", name="Come", exact=True).click()
    page.wait_for_url(root + "/topics")
    suite.check(
        f"{what}: a link shows a refusal", "cross-site requests" in page.content() and "orders" not in page.content()
    )
    page.remove_listener("response", seen)
    suite.equal(f"{what}: all that came back were refusals", {REFUSED}, statuses)
    suite.equal(f"{what}: the topics are what they were", names, [each.name for each in broker.topics()])
    suite.check(f"{what}: so is the clock", broker.clock.now_ms() - began_ms < 600_000)


def rebound(suite: Suite, page: Page, broker: ottla.Broker, what: str, *, has_token: bool) -> None:
    """Open the page under a foreign name that resolves to this machine: the page is then of that origin."""
    assert broker.admin is not None
    port = broker.admin.rpartition(":")[2]
    answer = page.goto(f"http://rebound.test:{port}/topics")
    assert answer is not None
    suite.equal(f"{what}: by another name it is not shown", ASKED_WHO if has_token else REFUSED, answer.status)
    suite.check(f"{what}: its content is not shown", "orders" not in page.content())
    found = page.evaluate(
        "async () => [(await fetch('/v1/topics')).status, (await fetch('/v1/topics', {method: 'POST', body: '{}',"
        " headers: {'Content-Type': 'application/json'}})).status]"
    )
    suite.equal(f"{what}: its scripts get nothing there", [ASKED_WHO if has_token else REFUSED] * 2, found)


def names_are_text(suite: Suite, browser: Browser) -> None:
    """Check that the names of clients, groups and keys are shown as text."""
    window = Window(browser)
    with ottla.Broker(admin="0") as broker, window as page:
        broker.create_topic("orders", 1, {"cleanup.policy": "compact"})
        for _ in range(20):
            broker.produce("orders", key=MARKUP, value=MARKUP)
        root = f"http://{broker.admin}"
        with member(broker, "orders", MARKUP):
            open_page(page, root + "/groups")
            page.get_by_role("link", name=MARKUP, exact=True).click()
            page.get_by_role("heading", name=MARKUP).wait_for()
            suite.check("a group's name is text", page.evaluate("() => window.hacked") is None)
        open_page(page, root + "/topics/orders/records")
        suite.check(
            "so are keys and values",
            page.get_by_text(MARKUP).count() > 0 and page.evaluate("() => window.hacked") is None,
        )
        page.evaluate(
            "() => { const each = document.createElement('script'); each.textContent = 'window.hacked = 1';"
            " document.body.append(each); }"
        )
        suite.check("no script but the page's own runs in it", page.evaluate("() => window.hacked") is None)
        told, window.said = [each for each in window.said if "Content Security Policy" in each], []
        suite.equal("which the console says, and nothing else", 1, len(told))
