"""Drives a page in headless Chromium over its debugging pipe: script runs in the page, as a user acts."""

import json
import os
import subprocess
import tempfile


class BrowserPage:
    """A page at an address, as a context; its console has to stay empty."""

    def __init__(self, browser, address):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self.pipe_in = os.pipe()
        self.pipe_out, from_browser = os.pipe()

        def move_pipes():  # Chromium reads commands from 3 and writes answers to 4
            os.dup2(to_browser, 103)
            os.dup2(from_browser, 104)
            os.dup2(103, 3)
            os.dup2(104, 4)

        self.process = subprocess.Popen(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-extensions", "--disable-background-networking", "--disable-sync",
             "--remote-debugging-pipe", f"--user-data-dir={self.folder.name}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
            preexec_fn=move_pipes)
        os.close(to_browser)
        os.close(from_browser)
        self.waiting, self.calls, self.console, self.session = b"", 0, [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            self.call(f"{domain}.enable")
        self.call("Page.navigate", url=address)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.pipe_in)
        os.close(self.pipe_out)
        self.folder.cleanup()

    def call(self, method, **parameters):
        self.calls += 1
        message = {"id": self.calls, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.pipe_in, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.calls:
                assert "error" not in answer, answer
                return answer["result"]
            if answer.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown",
                                        "Log.entryAdded"):
                self.console.append(answer["params"])

    def read(self):
        while b"\0" not in self.waiting:
            piece = os.read(self.pipe_out, 1 << 16)
            assert piece, "the browser has ended"
            self.waiting += piece
        message, self.waiting = self.waiting.split(b"\0", 1)
        return json.loads(message)

    def run(self, script):
        """Returns the value of an expression, or of the promise that it gives."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True,
                           returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait_for(self, condition, seconds=60):
        self.run(f"""new Promise((resolve, reject) => {{
          const end = Date.now() + {1000 * seconds};
          const look = () => ({condition}) ? resolve() : Date.now() > end
            ? reject(new Error('not within {seconds} s')) : setTimeout(look, 20);
          look();
        }})""")
