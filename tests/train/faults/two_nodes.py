"""Two network namespaces joined by one cable, as two machines that share their files.

Needs the right to make namespaces: root, or user namespaces for everybody. Everything vanishes with
this process, however it ends.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time

SKIPPED = 77  # CTest shows the test as skipped
CABLE = "cable"
ADDRESSES = {"node-a": "10.77.0.1", "node-b": "10.77.0.2"}
NAMES = tuple(ADDRESSES)


def enter_or_skip():
    """Starts this program again as root with mounts of its own."""
    if os.environ.get("TRIB_TEST_NAMESPACES") == "1":
        return
    options = ["--mount"]
    if os.geteuid() != 0:
        options = ["--user", "--map-root-user", *options]
    for tool in ("unshare", "nsenter", "ip"):
        if shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None:
            print(f"skipped: no {tool} here (packages util-linux, iproute2)")
            sys.exit(SKIPPED)
    tried = subprocess.run(["unshare", *options, "unshare", "--net", "--uts", "true"], capture_output=True,
                           text=True)
    if tried.returncode != 0:
        print("skipped: this machine lets us make no namespaces, which takes root or user "
              f"namespaces: {tried.stderr.strip()}")
        sys.exit(SKIPPED)
    os.environ |= {"TRIB_TEST_NAMESPACES": "1", "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
    os.execvp("unshare", ["unshare", *options, sys.executable, *sys.argv])


def end_with_parent():
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL


class TwoNodes:
    """Nodes 0 and 1, called node-a and node-b."""

    def __enter__(self):
        # Each node lives as long as a process that says so and waits for the end of its input.
        self.holders = [
            subprocess.Popen(["unshare", "--net", "--uts", "sh", "-c",
                              f"hostname {name} && echo ready && exec cat"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             preexec_fn=end_with_parent) for name in NAMES]
        for holder in self.holders:
            assert holder.stdout.readline() == b"ready\n"
        self.hosts = tempfile.NamedTemporaryFile("w")
        self.hosts.write("127.0.0.1 localhost\n" + "".join(
            f"{address} {name}\n" for name, address in ADDRESSES.items()))
        self.hosts.flush()
        subprocess.run(["mount", "--bind", self.hosts.name, "/etc/hosts"], check=True)
        self.lay_cable()
        for node, address in enumerate(ADDRESSES.values()):
            self.run(node, "ip", "address", "add", f"{address}/24", "dev", CABLE)
            self.run(node, "ip", "link", "set", CABLE, "up")
            self.run(node, "ip", "link", "set", "lo", "up")
        end = time.monotonic() + 10
        for node in range(2):
            while "LOWER_UP" not in self.run(node, "ip", "link", "show", CABLE):
                assert time.monotonic() < end, "the cable does not come up"
                time.sleep(0.01)
        return self

    def lay_cable(self):
        self.run(0, "ip", "link", "add", CABLE, "type", "veth", "peer", "name", CABLE,
                 "netns", str(self.holders[1].pid))

    def __exit__(self, *_):
        for holder in self.holders:
            holder.stdin.close()
            holder.stdout.close()
            holder.wait()
        subprocess.run(["umount", "/etc/hosts"], check=True)
        self.hosts.close()

    def on(self, node, command):
        """The command line that runs `command` on the node, as the same process."""
        return ["nsenter", "--net", "--uts", "--target", str(self.holders[node].pid), "--", *command]

    def run(self, node, *command):
        return subprocess.run(self.on(node, command), check=True, text=True,
                              stdout=subprocess.PIPE).stdout

    def cut(self):
        self.run(0, "ip", "link", "set", CABLE, "down")

    def mend(self):
        self.run(0, "ip", "link", "set", CABLE, "up")
