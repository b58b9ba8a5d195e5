"""A real browser without a window, spoken to over its debugging pipe: what it draws, logs and asks the network for."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
needs_browser = pytest.mark.skipif(not BROWSER, reason="no chromium on this machine (apt-get install chromium)")


class Browser:
    """One tab."""

    def __init__(self, process: subprocess.Popen[bytes], write: int, read: int) -> None:
        self.process = process
        self._write, self._read = write, read
        self._number = 0
        self._rest = b""
        self.events: list[dict[str, Any]] = []
        tab = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = ""
        self._session = self.call("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Do something and wait for the answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if getattr(self, "_session", ""):
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for answer in self._received(1.0):
                if answer.get("id") == self._number:
                    assert "error" not in answer, answer
                    return dict(answer["result"])
        raise TimeoutError(method)

    def _received(self, seconds: float) -> list[dict[str, Any]]:
        if select.select([self._read], [], [], seconds)[0]:
            self._rest += os.read(self._read, 1 << 20)
        *whole, self._rest = self._rest.split(b"\0")
        found = [json.loads(part) for part in whole]
        self.events += [message for message in found if "method" in message]
        return found

    def wait(self, seconds: float) -> None:
        """Let the page work."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._received(left)

    def value(self, expression: str) -> Any:
        """What an expression comes to on the page."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def until(self, expression: str, seconds: float = 20) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + seconds
        while not self.value(expression):
            assert time.monotonic() < deadline, f"never true: {expression}"
            self.wait(0.1)

    def size(self, width: int, height: int, *, dark: bool = False) -> None:
        """The size of the window, as of a screen or a phone, and whether the user likes it dark."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def open(self, address: str) -> None:
        """Go to a page and wait until every chart is drawn."""
        self.events.clear()
        self.call("Page.navigate", url=address)
        self.until("document.readyState === 'complete'")
        self.until("[...document.querySelectorAll('.plot')].every((plot) => plot.dataset.drawn)")

    def hover(self, selector: str, across: float = 0.5, down: float = 0.5) -> None:
        """Move the pointer over an element."""
        self.value(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center'}})")
        box = self.value(
            "((box) => [box.x, box.y, box.width, box.height])"
            f"(document.querySelector({selector!r}).getBoundingClientRect())"
        )
        x, y = box[0] + across * box[2], box[1] + down * box[3]
        for step in (-2, 0):
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + step, y=y)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """A picture of the page."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    @property
    def complaints(self) -> list[str]:
        """Everything the page logged as an error or warning, and every exception."""
        found = []
        for event in self.events:
            parameters = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(parameters))
            if event["method"] == "Log.entryAdded":
                found.append(f"{parameters['entry']['level']}: {parameters['entry']['text']}")
            if event["method"] == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
                found.append(json.dumps(parameters["args"])[:500])
        return found

    @property
    def requests(self) -> list[str]:
        """The addresses the page asked for; what it carries inside is not among them."""
        asked = [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [url for url in asked if not url.startswith(("data:", "about:"))]


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser with a profile of its own, ended with everything it started."""
    theirs, mine = os.pipe()
    back, answers = os.pipe()

    def pipes() -> None:
        # The browser reads from 3 and writes to 4; duplicates first, so that neither overwrites the other.
        a, b = os.dup(theirs), os.dup(answers)
        os.dup2(a, 3)
        os.dup2(b, 4)

    process = subprocess.Popen(
        [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--mute-audio",
         "--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"],
        pass_fds=(3, 4, theirs, answers), preexec_fn=pipes, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(theirs)
    os.close(answers)
    try:
        yield Browser(process, mine, back)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
        os.close(mine)
        os.close(back)
