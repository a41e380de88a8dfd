"""setup.sh in a folder of its own, where every program that it calls is a stub or a plain tool."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ["bash", "cat", "cmp", "cp", "cut", "dirname", "env", "grep", "head", "mkdir", "printf",
         "sed", "sort"]
NOT_ROOT = "echo 1000"


def list_packages(purpose):
    """The packages of a file of system_packages.txt as Debian names them."""
    for line in (ROOT / "setup/system_packages.txt").read_text().splitlines():
        words = re.sub("#.*", "", line).split()
        if words and words[1:] in ([], [purpose]):
            yield words[0]


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        shutil.copytree(ROOT / "setup", self.root / "setup")
        self.programs = self.root / "bin"
        self.programs.mkdir()
        for tool in TOOLS:
            os.symlink(shutil.which(tool), self.programs / tool)
        self.installed = self.root / "installed.txt"
        self.install(["nothing"])
        self.stub("dpkg-query",  # -W -f=... NAME
                  f'grep -qx "$3" "{self.installed}" && echo "install ok installed"')
        self.stub("id", "echo 0")
        self.stub("sudo", "exit 1")
        self.stub("apt-get", f'echo "apt-get $*" >> "{self.root}/calls"')
        self.stub("python3", f'echo "python3 $*" >> "{self.root}/calls"')
        self.stub("env/bin/python", f'echo "pip $*" >> "{self.root}/calls"')
        self.stub("g++", "echo 12")
        self.stub("cmake", "echo cmake version 3.25.1")
        self.system("ID=debian\nVERSION_ID=12\n")

    def stub(self, name, body):
        path = self.root / name if "/" in name else self.programs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(0o755)

    def system(self, text):
        (self.root / "os-release").write_text(text)

    def install(self, packages):
        self.installed.write_text("\n".join(packages) + "\n")

    def setup(self, purpose, **more):
        done = subprocess.run(
            [self.root / "setup/setup.sh", purpose], capture_output=True, text=True,
            env={"PATH": str(self.programs), "TRIB_ENV": str(self.root / "env"),
                 "TRIB_OS_RELEASE": str(self.root / "os-release"), **more})
        return done.returncode, done.stdout + done.stderr

    def calls(self):
        path = self.root / "calls"
        text = path.read_text() if path.exists() else ""
        path.unlink(missing_ok=True)
        return text

    def test_without_root_it_names_what_is_missing(self):
        self.stub("id", NOT_ROOT)
        missing = {"ninja-build", "libpng-dev"}
        self.install(set(list_packages("runtime")) - missing)
        code, text = self.setup("runtime")
        self.assertEqual(code, 5, text)
        self.assertIn("setup: missing system packages: ninja-build libpng-dev\n", text)
        self.assertIn("sudo apt-get install --no-install-recommends ninja-build libpng-dev   and "
                      "repeat", text)
        self.assertEqual(self.calls(), "")

    def test_without_root_it_goes_on_when_nothing_is_missing(self):
        self.stub("id", NOT_ROOT)
        self.install(list_packages("runtime"))
        code, text = self.setup("runtime")
        self.assertEqual(code, 0, text)
        self.assertIn("system packages: all there", text)

    def test_with_sudo_it_installs(self):
        self.stub("id", NOT_ROOT)
        self.stub("sudo", '[ "$1" = -n ] || "$@"')
        code, text = self.setup("runtime")
        self.assertEqual(code, 0, text)
        calls = self.calls()
        self.assertIn("apt-get -qq update\n", calls)
        self.assertIn("install -y --no-install-recommends", calls)
        self.assertIn("ninja-build", calls)

    def test_repeated_it_does_nothing(self):
        for purpose, wheels in (("runtime", "requirements.txt"), ("test", "requirements_test.txt")):
            with self.subTest(purpose):
                self.install(list_packages(purpose))
                code, text = self.setup(purpose)
                self.assertEqual(code, 0, text)
                self.assertIn(f"-r setup/{wheels}", self.calls())
                code, text = self.setup(purpose)
                self.assertEqual((code, text), (0, "setup: system packages: all there\n"
                                                   "setup: Python wheels: all there\n"))
                self.assertEqual(self.calls(), "")

    def test_the_wheels_of_the_tests_hold_those_of_the_program(self):
        self.install([*list_packages("test")])
        self.assertEqual(self.setup("test")[0], 0)
        self.calls()
        self.assertIn("Python wheels: all there", self.setup("runtime")[1])
        self.assertEqual(self.calls(), "")

    def test_a_failed_installation_of_wheels_is_taken_up_again(self):
        self.install(list_packages("runtime"))
        self.stub("env/bin/python", '[ "$3" = --version ]')
        self.assertNotEqual(self.setup("runtime")[0], 0)
        self.stub("env/bin/python", f'echo "pip $*" >> "{self.root}/calls"')
        code, text = self.setup("runtime")
        self.assertEqual(code, 0, text)
        self.assertIn("installing libtorch", text)
        self.assertIn("pip -m pip install", self.calls())

    def test_ubuntu_22_04_takes_its_newer_compiler_and_the_wheel_of_cmake(self):
        self.system("ID=ubuntu\nVERSION_ID=22.04\n")
        self.stub("g++", "echo 11")
        self.stub("cmake", "echo cmake version 3.22.1")
        code, text = self.setup("runtime")
        self.assertEqual(code, 0, text)
        calls = self.calls()
        self.assertRegex(calls, r"apt-get .*install .* g\+\+-12 ")
        self.assertNotRegex(calls, r"apt-get .*install .* cmake ")
        self.assertIn("pip -m pip install --quiet cmake==3.25", calls)
        self.assertEqual(self.setup("compiler")[1], "g++-12\n")

    def test_ubuntu_says_where_a_browser_comes_from(self):
        self.system("ID=ubuntu\nVERSION_ID=24.04\n")
        code, text = self.setup("test")
        self.assertEqual(code, 0, text)
        self.assertNotIn("chromium", self.calls())
        self.assertIn("install Google Chrome, or set TRIB_SKIP_BROWSER=1", text)
        self.assertNotIn("Chrome", self.setup("test", TRIB_SKIP_BROWSER="1")[1])
        self.stub("google-chrome", "exit 0")
        self.assertNotIn("Chrome", self.setup("test")[1])


unittest.main()
