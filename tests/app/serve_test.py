"""Talks to `tributary serve` with the official client of OpenAI, and with bad requests.

Usage: serve_test.py TRIBUTARY
"""

import base64
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import unittest

import openai

from served_model import ServedModel
from png_file import png
from tiny_model import USER_TURN, TinyModelCase

ASK = [{"role": "user", "content": "why?"}]
SYSTEM_TOKENS = len(b"system\nYou are a helpful assistant.") + 3  # start, end and the newline


class Serve(TinyModelCase):
    def serve(self):
        served = ServedModel(self.model)
        self.addCleanup(served.__exit__)
        client = openai.OpenAI(base_url=served.address + "v1", api_key="none", max_retries=0)
        self.addCleanup(client.close)
        return served, client

    def generate(self, *words):
        code, out, error = self.run_verb("generate", self.model, "--max-new-tokens", "8",
                                         "--temperature", "1", *words)
        self.assertEqual(code, 0, error)
        return out.decode("utf-8", "replace").removesuffix("\n")

    def create(self, client, **more):
        return client.chat.completions.create(
            **{"model": "tiny", "messages": ASK, "max_tokens": 8, "seed": 0, **more})

    def test_answers_are_those_of_generate(self):
        served, client = self.serve()
        self.assertEqual([model.id for model in client.models.list()], ["tiny"])
        whole = self.create(client)
        self.assertEqual(whole.choices[0].message.content, self.generate("--prompt", "why?"))
        self.assertEqual(whole.choices[0].message.role, "assistant")
        self.assertEqual(whole.usage.prompt_tokens, SYSTEM_TOKENS + len(USER_TURN))
        self.assertLessEqual(whole.usage.completion_tokens, 8)
        self.assertEqual(whole.choices[0].finish_reason,
                         "length" if whole.usage.completion_tokens == 8 else "stop")
        sampled = self.create(client, temperature=1.5, top_p=0.9, seed=7).choices[0].message.content
        code, out, error = self.run_verb("generate", self.model, "--prompt", "why?", "--temperature",
                                         "1.5", "--top-p", "0.9", "--seed", "7", "--max-new-tokens", "8")
        self.assertEqual((code, out.decode("utf-8", "replace")), (0, sampled + "\n"), error)
        self.assertNotEqual(sampled, whole.choices[0].message.content)
        system = [{"role": "system", "content": "Be brief."}, *ASK]
        self.assertEqual(self.create(client, messages=system).choices[0].message.content,
                         self.generate("--prompt", "why?", "--system", "Be brief."))
        longer = [*ASK, {"role": "assistant", "content": "So."}, {"role": "user", "content": "And?"}]
        self.assertGreater(self.create(client, messages=longer).usage.prompt_tokens,
                           whole.usage.prompt_tokens + 6)
        self.assertEqual(served.stop(), (0, "stopped\n", ""))

    def test_a_stream_has_the_same_text(self):
        _, client = self.serve()
        whole = self.create(client, max_completion_tokens=24, max_tokens=openai.omit)
        chunks = list(self.create(client, max_tokens=24, stream=True,
                                  stream_options={"include_usage": True}))
        text = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices
                and chunk.choices[0].delta.content]
        self.assertGreater(len(text), 3)
        self.assertEqual("".join(text), whole.choices[0].message.content)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual(chunks[-2].choices[0].finish_reason, whole.choices[0].finish_reason)
        self.assertEqual(chunks[-1].usage, whole.usage)
        self.assertEqual(len({chunk.id for chunk in chunks}), 1)

        words = whole.choices[0].message.content
        stop = words[len(words) // 2:len(words) // 2 + 2]
        for stream in (False, True):
            cut = self.create(client, max_tokens=24, stop=[stop, "never"], stream=stream)
            if stream:
                chunks = list(cut)
                end = chunks[-1].choices[0].finish_reason
                content = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
            else:
                end, content = cut.choices[0].finish_reason, cut.choices[0].message.content
                self.assertLess(cut.usage.completion_tokens, whole.usage.completion_tokens)
            self.assertEqual((end, content), ("stop", words[:words.index(stop)]))

    def test_pictures_come_as_data_urls(self):
        self.make_vision_model()
        _, client = self.serve()
        picture = png(56, 56, lambda x, y: 250 * (x > 20 and y < 30))
        path = self.write_bytes("spot.png", picture)
        url = "data:image/png;base64," + base64.b64encode(picture).decode()

        def ask(url):
            return self.create(client, messages=[{"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": url, "detail": "auto"}},
                {"type": "text", "text": "what?"}]}])

        self.assertEqual(ask(url).choices[0].message.content,
                         self.generate("--prompt", "what?", "--image", path))
        for bad, words in (("https://example.org/a.png", "opens no addresses"),
                           ("data:image/png;base64,AAAA", "unknown_format"),
                           ("data:image/png;base64,?", "a picture as a data URL"),
                           (url[:-3], "base64")):
            with self.assertRaisesRegex(openai.BadRequestError, words) as refused:
                ask(bad)
            self.assertEqual(refused.exception.param, "messages[0].content[0].image_url.url")
        with self.assertRaisesRegex(openai.BadRequestError, "at most 16"):
            self.create(client, messages=[{"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": url}}] * 17}])

    def test_the_guide_shows_a_program_that_works(self):
        self.make_vision_model()
        served, _ = self.serve()
        guide = (pathlib.Path(__file__).parents[2] / "docs/guides/answers.md").read_text()
        program = re.search(r"```python\n(.*?)```", guide, re.S)[1]
        os.makedirs(self.path("pictures"))
        self.write_bytes("pictures/cat.png", png(56, 56, lambda x, y: 250 * (x > 20 and y < 30)))
        changes = {"http://127.0.0.1:8080/": served.address, 'model="mine"': 'model="tiny"',
                   "max_tokens=64, temperature=0": "max_tokens=8, seed=0"}
        for old, new in changes.items():
            self.assertIn(old, program)
            program = program.replace(old, new)
        done = subprocess.run([sys.executable, "-c", program], cwd=self.folder, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.decode("utf-8", "replace"),
                         self.generate("--prompt", "What is this?", "--image", self.path("pictures/cat.png")))

    def test_bad_requests_say_what_is_wrong(self):
        _, client = self.serve()
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(
            png(28, 28, lambda x, y: x)).decode()}}
        for given, parameter, *words in (
                ({"messages": []}, "messages", "at least one message"),
                ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role", '"tool"'),
                ({"messages": [*ASK, {"role": "system", "content": "x"}]}, "messages[1].role", "first"),
                ({"messages": [*ASK, {"role": "assistant", "content": "x"}]}, "messages[1].role",
                 "what a user says"),
                ({"messages": [{"role": "user", "content": []}]}, "messages[0].content", "found: []"),
                ({"messages": [{"role": "user", "content": [image]}]}, "messages", "no vision tower"),
                ({"messages": [{"role": "user", "content": [{"type": "video"}]}]},
                 "messages[0].content[0].type", "video"),
                ({"temperature": 3}, "temperature", "found: 3", "from 0 to 2"),
                ({"top_p": 0}, "top_p", "found: 0"),
                ({"max_tokens": 0}, "max_tokens", "at least 1"),
                ({"max_tokens": 100_000}, "max_tokens", "may outgrow the model's context"),
                ({"seed": "x"}, "seed", "a whole number"),
                ({"stop": ["a"] * 5}, "stop", "up to 4"),
                ({"stop": ""}, "stop", "a text"),
                ({"n": 2}, "n", "found: 2; expected: 1"),
                ({"logprobs": True}, "logprobs", "false"),
                ({"stream": "yes"}, "stream", "true or false"),
                ({"stream": True, "messages": [{"role": "user", "content": "why? " * 200}]}, None,
                 "the prompt fills the model's context"),
                ({"extra_body": {"temprature": 1}}, "temprature", "`temperature`?")):
            with self.subTest(given), self.assertRaises(openai.BadRequestError) as refused:
                self.create(client, **given)
            error = refused.exception
            self.assertEqual((error.param, error.type), (parameter, "invalid_request_error"))
            for text in words:
                self.assertIn(text, error.message)
        with self.assertRaisesRegex(openai.NotFoundError, "this server has tiny") as refused:
            self.create(client, model="gpt")
        self.assertEqual(refused.exception.code, "model_not_found")
        with self.assertRaisesRegex(openai.NotFoundError, "no such address"):
            client.embeddings.create(model="tiny", input="x")
        self.create(client, user="me", n=1, response_format={"type": "text"})  # say nothing

    def test_requests_that_no_client_sends(self):
        served, _ = self.serve()

        def send(method, path, body=None, **headers):
            connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            text = response.read()
            connection.close()
            return response.status, text, response

        json_type = {"Content-Type": "application/json"}
        chats = "/v1/chat/completions"
        for status, words, *request in (
                (400, b"body", "POST", chats, b"{"),
                (400, b"names no model", "POST", chats, b"[]"),
                (404, b"no such address", "GET", "/v2"),
                (413, b"larger than 32 MiB", "POST", chats, b" " * ((32 << 20) + 1))):
            with self.subTest(words):
                found, text, _ = send(*request, **json_type)
                self.assertEqual(found, status, text)
                self.assertIn(words, text)
                self.assertEqual(list(json.loads(text)), ["error"])
        self.assertEqual(send("POST", chats, b"{}", **{"Content-Type": "text/plain"})[0], 415)
        self.assertEqual(send("GET", "/v1/models", Host=f"evil.example:{served.port}")[0], 403)
        status, text, response = send("GET", "/", Host=f"localhost:{served.port}")
        self.assertEqual(status, 200)
        self.assertIn(b"chat.js", text)
        self.assertIn("default-src 'self'", response.headers["Content-Security-Policy"])

    def test_requests_wait_for_each_other_and_for_the_end(self):
        served, client = self.serve()
        alone = self.create(client, max_tokens=40).choices[0].message.content
        answers = [None] * 6
        threads = [threading.Thread(target=lambda i=i: answers.__setitem__(
            i, self.create(client, max_tokens=40).choices[0].message.content)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(answers, [alone] * 6)
        # A client that goes away in the middle of a stream leaves the model to others.
        stream = self.create(client, max_tokens=400, stream=True, stop=openai.omit)
        next(iter(stream))
        stream.close()
        self.assertEqual(self.create(client, max_tokens=40).choices[0].message.content, alone)
        stream = self.create(client, max_tokens=400, stream=True)
        next(iter(stream))
        begin = time.monotonic()
        self.assertEqual(served.stop(), (0, "stopped\n", ""))
        self.assertLess(time.monotonic() - begin, 20)

    def test_serve_refuses_what_it_cannot_open(self):
        served, _ = self.serve()
        self.assert_refused(["serve", self.model, "--port", str(served.port)],
                            "app: the port cannot be opened", str(served.port), exit_code=5)
        self.assert_refused(["serve", self.model, "--port", "70000"], "app: no such port")
        self.assert_refused(["serve", self.path("none")], "app: no such model or run")


if __name__ == "__main__":
    unittest.main()
