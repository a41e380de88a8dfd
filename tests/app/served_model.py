"""Starts and ends `tributary serve`, for the tests that talk to it."""

import os
import re
import signal
import subprocess

from tiny_model import TRIBUTARY


class ServedModel:
    """A server of a model on a free port, as a context."""

    def __init__(self, model):
        self.process = subprocess.Popen(
            [TRIBUTARY, "serve", model, "--port", "0", "--name", "tiny"], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        line = self.process.stdout.readline()
        found = re.match(r"serving tiny at (http://127.0.0.1:(\d+)/)", line)
        assert found, (line, self.process.communicate())
        self.address, self.port = found[1], int(found[2])

    def __enter__(self):
        return self

    def stop(self):
        """Ends it as Ctrl-C does; returns exit code, the rest of its output, and its errors."""
        self.process.send_signal(signal.SIGINT)
        out, error = self.process.communicate(timeout=60)
        return self.process.returncode, out, error

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
