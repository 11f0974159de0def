# SPDX-License-Identifier: Apache-2.0
"""A page in headless Chromium, driven by the DevTools protocol over two pipes."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe", "--window-size=1300,1000"]
SECONDS = 120  # for any one answer; a busy machine takes tens of seconds to start the browser


class Page:
    """Sends commands and keeps what the page complained about in `errors`."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._out, self._in = to_browser, from_browser
        self._buffer, self._id, self._session = b"", 0, None
        self._events: list[dict[str, Any]] = []
        self.errors: list[str] = []

    def attach(self) -> None:
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Runtime", "Log", "Page"]:
            self.command(f"{domain}.enable")

    def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._id += 1
        message = {"id": self._id, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._id:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def open(self, path: Path) -> None:
        self.command("Page.navigate", url=path.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._note(self._read())
        self._events.clear()

    def run(self, expression: str) -> Any:
        result = self.command("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def press(self, key: str, code: int) -> None:
        text = {"text": "\r"} if key == "Enter" else {}
        self.command("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, **text)
        self.command("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def _read(self) -> dict[str, Any]:
        end = time.monotonic() + SECONDS
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0, end - time.monotonic()))
            data = os.read(self._in, 1 << 16) if ready else b""
            assert data, "the browser closed the pipe, or did not answer in time"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(line)

    def _note(self, event: dict[str, Any]) -> None:
        method, what = event.get("method", ""), event.get("params", {})
        self._events.append({"method": method})
        is_error = (method == "Runtime.exceptionThrown" or (method == "Log.entryAdded" and what["entry"]["level"] == "error")
                    or (method == "Runtime.consoleAPICalled" and what["type"] in ("error", "assert")))
        if is_error:
            self.errors.append(json.dumps(what))


@contextlib.contextmanager
def chromium(program: str, profile: Path) -> Iterator[Page]:
    """Chromium reads commands from file descriptor 3 and writes answers to 4."""
    child_in, parent_out = os.pipe()
    parent_in, child_out = os.pipe()
    shell = f"exec 3<&{child_in} 4>&{child_out}; exec \"$@\""
    with (profile / "chromium.log").open("wb") as log, subprocess.Popen(
            ["bash", "-c", shell, "bash", program, *FLAGS, f"--user-data-dir={profile}"], pass_fds=(child_in, child_out),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process:
        os.close(child_in)
        os.close(child_out)
        try:
            page = Page(parent_out, parent_in)
            page.attach()
            yield page
        finally:
            process.terminate()
            os.close(parent_out)
            os.close(parent_in)
