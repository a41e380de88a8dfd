"""Talks with `tributary chat` through a pipe: turns, commands, errors.

Usage: chat_test.py TRIBUTARY
"""

import os
import subprocess
import unittest

from png_file import png
from tiny_model import TRIBUTARY, TinyModelCase

DECODING = ["--max-new-tokens", "8", "--temperature", "1"]  # greedy answers are all the same


class Chat(TinyModelCase):
    def talk(self, *lines, options=()):
        """Returns what is said, and standard error."""
        done = subprocess.run(
            [TRIBUTARY, "chat", self.model, *DECODING, *options],
            input="".join(line + "\n" for line in lines), capture_output=True, text=True,
            errors="replace", env={**os.environ, "OMP_NUM_THREADS": "1"})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, done.stderr

    def answer(self, prompt, *options):
        code, out, error = self.run_verb("generate", self.model, "--prompt", prompt, *DECODING, *options)
        self.assertEqual(code, 0, error)
        return out.decode("utf-8", "replace")

    def test_chat_says_what_generate_says(self):
        self.assertEqual(self.talk("why?"), (self.answer("why?"), ""))
        sampled = ["--seed", "3"]
        self.assertEqual(self.talk("why?", options=sampled)[0], self.answer("why?", *sampled))

    def test_chat_remembers_its_turns_until_it_forgets(self):
        first, second = self.answer("why?"), self.answer("how?")
        out, _ = self.talk("why?", "how?", "/reset", "how?")
        self.assertTrue(out.startswith(first), out)
        self.assertTrue(out.endswith("chat forgotten\n" + second), out)
        remembered = out[len(first):out.index("chat forgotten")]
        self.assertNotEqual(remembered, second)  # the turns before count

    def test_chat_takes_a_system_prompt(self):
        brief = self.answer("why?", "--system", "Be brief.")
        self.assertNotEqual(brief, self.answer("why?"))
        self.assertEqual(self.talk("/system Be brief.", "why?")[0], "system prompt set\n" + brief)
        self.assertEqual(self.talk("why?", options=["--system", "Be brief."])[0], brief)
        self.assertEqual(self.talk("/system Be brief.", "/reset", "why?")[0],
                         "system prompt set\nchat forgotten\n" + brief)
        self.assertEqual(self.talk("/system Be brief.", "/system", "why?")[0],
                         "system prompt set\nthe first system prompt again\n" + self.answer("why?"))

    def test_chat_sees_pictures(self):
        self.make_vision_model()
        spot = self.write_bytes("spot.png", png(56, 56, lambda x, y: 250 * (x > 20 and y < 30)))
        out, _ = self.talk(f"/image {spot}", "what?")
        self.assertEqual(out, f"picture added: {spot}\n" + self.answer("what?", "--image", spot))
        self.assertNotEqual(out, f"picture added: {spot}\n" + self.answer("what?"))

    def test_chat_goes_on_behind_an_error(self):
        out, error = self.talk("/image none.png", "/fly", "why? " * 200, "why?")
        self.assertEqual(out, self.answer("why?"))
        for words in ("app: this model takes no images", 'app: unknown command; found: "/fly"',
                      "app: the prompt fills the model's context"):
            self.assertIn(words, error)
        self.make_vision_model()
        self.assertIn("app: no such image; where: none.png", self.talk("/image none.png")[1])

    def test_words_come_before_the_end(self):
        long = ["--max-new-tokens", "100", "--temperature", "1"]
        chat = subprocess.Popen([TRIBUTARY, "chat", self.model, *long], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"})
        chat.stdin.write(b"why?\n")
        chat.stdin.close()
        pieces = list(iter(lambda: os.read(chat.stdout.fileno(), 1 << 16), b""))
        chat.stdout.close()
        self.assertEqual(chat.wait(), 0)
        self.assertGreater(len(pieces), 1)
        code, out, error = self.run_verb("generate", self.model, "--prompt", "why?", *long)
        self.assertEqual((code, out), (0, b"".join(pieces)), error)

    def test_chat_refuses_bad_options(self):
        for words, *expected in ((["--top-p", "2"], "app: top_p out of range", "where: --top-p"),
                                 (["--max-new-tokens", "-1"], "found: -1", "expected: 0 or more"),
                                 (["--device", "tpu"], "tpu")):
            with self.subTest(words):
                self.assert_refused(["chat", self.model, *words], *expected)


if __name__ == "__main__":
    unittest.main()
