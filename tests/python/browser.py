"""A browser without a window, driven over its own protocol (a pipe of JSON), and a server of a folder's files."""

import base64
import contextlib
import functools
import http.server
import itertools
import json
import os
import select
import shutil
import subprocess
import threading
import time

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe"),
    *("--no-first-run", "--hide-scrollbars", "--force-device-scale-factor=1"),
    *("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"),
)


def find_browser():
    return next(filter(None, map(shutil.which, BROWSERS)), None)


# With these headers, pages may share memory between threads.
ISOLATED = {"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp"}


@contextlib.contextmanager
def served(folder, headers=None, asked=None):
    """The address of a server of the folder. `asked` is a list that gets the paths of requests."""

    class Files(http.server.SimpleHTTPRequestHandler):
        def end_headers(self):
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            super().end_headers()

        def log_request(self, *_):
            if asked is not None:
                asked.append(self.path)

        def log_message(self, *_):
            pass

    handler = functools.partial(Files, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


class Browser:
    """One page. `errors` are what it printed as errors, what it threw, and what it could not load."""

    def __init__(self, profile, size=(1200, 900)):
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        command = [find_browser(), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "browser", *command],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._numbers = itertools.count(1)
        self._left = b""
        self._session = None
        self.errors = []
        [target] = [each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "page"]
        attach = {"targetId": target["targetId"], "flatten": True}
        self._session = self.call("Target.attachToTarget", **attach)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "DOM"):
            self.call(f"{domain}.enable")
        self.resize(*size)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(Exception):
            self._session = None
            self.call("Browser.close")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)

    # ---- the protocol

    def call(self, method, **parameters):
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def _receive(self, seconds=300):
        while b"\0" not in self._left:
            assert select.select([self._read], [], [], seconds)[0], "the browser does not answer"
            piece = os.read(self._read, 1 << 20)
            assert piece, "the browser ended"
            self._left += piece
        text, self._left = self._left.split(b"\0", 1)
        message = json.loads(text)
        self._note(message.get("method"), message.get("params"))
        return message

    def _note(self, method, parameters):
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert"):
            self.errors.append(" ".join(str(each.get("value", each.get("description"))) for each in parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")

    # ---- what tests say

    def open(self, address):
        self.call("Page.navigate", url=address)

    def run(self, script):
        """The value of an expression, which may be a promise."""
        done = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait(self, script, seconds=120):
        """Until the expression is true; returns its value. That of an element is true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if value := self.run(f"(value => value instanceof Node || value)({script})"):
                return value
            time.sleep(0.02)
        raise AssertionError(f"after {seconds} s it is not true: {script}; errors: {self.errors}")

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? null")

    def click(self, selector):
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def mouse(self, selector, points):
        """Presses at the first point of an element, moves to the others, and lets go."""
        found = f"document.querySelector({json.dumps(selector)})"
        place = "e => (e.scrollIntoView({block: 'center'}), e = e.getBoundingClientRect(), [e.x, e.y])"
        left, top = self.run(f"({place})({found})")
        places = [(left + x, top + y) for x, y in points]
        kinds = ["mousePressed", *["mouseMoved"] * (len(points) - 1), "mouseReleased"]
        for kind, (x, y) in zip(kinds, [*places, places[-1]], strict=True):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def key(self, name, text=None):
        codes = {"Tab": 9, "Enter": 13, "ArrowDown": 40, "ArrowRight": 39, " ": 32}
        base = {"key": name, "windowsVirtualKeyCode": codes.get(name, 0)}
        self.call("Input.dispatchKeyEvent", type="keyDown", **base, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **base)

    def choose_file(self, selector, path):
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", files=[str(path)], nodeId=node)

    def resize(self, width, height):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def dark(self, is_dark=True):
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, path=None, whole=False):
        """PNG bytes, and a file of them."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        png = base64.b64decode(data)
        if path is not None:
            path.write_bytes(png)
        return png
