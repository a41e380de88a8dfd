"""Runs `tributary doctor` as a user does: what it lists, how it ends, and whether it finds what is
wrong. argv[1] is the executable."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

TRIBUTARY = sys.argv.pop(1)
FACTS = {
    "tributary": r"0\.1\.0, commit \w+, preset \S+",
    "compiler": r"g\+\+ \d+",
    "libraries": r"CLI11 \d.*nlohmann_json \d.*yaml-cpp \d.*libpcre2-8 \d.*libutf8proc \d.*"
                 r"libturbojpeg \d.*libpng \d.*zlib \d.*cairo \d",
    "libtorch": r"2\.\d+",
    "system": r"Linux ",
    "cpu": r".+, with(out)? bf16",
    "cores": r"\d+ usable of \d+; load of the last minute \d+\.\d",
    "threads": r"\d+ for computing \(run\.threads\); OMP_NUM_THREADS",
    "devices": r"cpu",
    "memory": r"[\d.]+ GiB free of [\d.]+ GiB",
    "disk": r"[\d.]+ GiB free in /",
    "shared memory": r"[\d.]+ GiB free in /dev/shm",
    "open files": r"at most \d+ \(ulimit -n; hard limit \d+\)"}


def run_doctor(environment=(), program=TRIBUTARY, words=(), **more):
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **dict(environment)}
    done = subprocess.run([program, "doctor", *words], capture_output=True, text=True, env=variables,
                          cwd="/tmp", **more)
    return done.returncode, done.stdout


def lower_open_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (32, 2048))


class Doctor(unittest.TestCase):
    def test_lists_every_fact_of_build_and_machine(self):
        code, text = run_doctor()
        self.assertEqual(code, 0, text)
        for topic, found in FACTS.items():
            with self.subTest(topic):
                self.assertRegex(text, re.compile(rf"^{topic} +{found}", re.M))
        self.assertTrue(text.endswith("\nfit to train\n"), text)
        self.assertNotIn("\nproblems\n", text)

    def test_what_libtorch_says_of_itself_is_folded(self):
        self.assertNotIn("ATen/Parallel", run_doctor()[1])
        self.assertIn("ATen/Parallel", run_doctor(words=["--verbose"])[1])

    def test_one_json_object_says_the_same(self):
        code, text = run_doctor(words=["--json"])
        answer = json.loads(text)
        self.assertEqual((code, answer["fit"], answer["problems"]), (0, True, []))
        self.assertEqual(set(answer["facts"]), set(FACTS))
        self.assertIn("ATen/Parallel", answer["parallel"])

    def test_names_a_low_limit_of_open_files(self):
        code, text = run_doctor(preexec_fn=lower_open_files)
        self.assertEqual(code, 5, text)
        self.assertIn("problems\n  open files: the limit is 32, a run needs 256; fix: "
                      "ulimit -n 1024", text)
        self.assertIn("not fit to train", text)

    def test_names_a_thread_count_that_is_none(self):
        code, text = run_doctor({"OMP_NUM_THREADS": "garbage"})
        self.assertEqual(code, 5, text)
        self.assertIn('  threads: OMP_NUM_THREADS is "garbage", which is no number of threads; '
                      "fix: unset OMP_NUM_THREADS", text)

    def test_waiting_threads_do_not_spin_for_long_unless_asked(self):
        def spin_count(**variables):
            environment = {k: v for k, v in os.environ.items()
                           if k not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
            done = subprocess.run([TRIBUTARY, "doctor"], capture_output=True, text=True,
                                  env={**environment, "OMP_DISPLAY_ENV": "VERBOSE", **variables})
            return re.search(r"GOMP_SPINCOUNT = '(\d+)'", done.stderr)[1]
        self.assertEqual(spin_count(), "10000")
        self.assertEqual(spin_count(GOMP_SPINCOUNT="77"), "77")
        self.assertNotEqual(spin_count(OMP_WAIT_POLICY="active"), "10000")

    def test_says_when_tensorboard_is_missing(self):
        with tempfile.TemporaryDirectory() as programs:
            code, text = run_doctor({"PATH": programs})
            self.assertEqual(code, 0, text)
            self.assertIn("what would not work here\n", text)
            self.assertIn("looking at TensorBoard files: runs write them, no program "
                          "`tensorboard` is on PATH", text)
            stub = os.path.join(programs, "tensorboard")
            with open(stub, "w") as out:
                out.write("#!/bin/sh\n")
            os.chmod(stub, 0o755)
            self.assertNotIn("TensorBoard", run_doctor({"PATH": programs})[1])

    def test_reports_the_rest_when_the_engine_does_not_load(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = shutil.copy(TRIBUTARY, folder)
            code, text = run_doctor(program=alone)
        self.assertEqual(code, 5, text)
        self.assertIn("every verb that computes: ", text)
        self.assertIn("the engine library does not load", text)
        self.assertRegex(text, r"(?m)^memory +[\d.]+ GiB free")


unittest.main()
