"""Uses the page of `tributary serve` in headless Chromium as a person does.

Usage: chat_page_test.py TRIBUTARY
"""

import base64
import re
import unittest

from browser_page import BrowserPage
from find_browser import find_browser
from served_model import ServedModel
from png_file import png
from tiny_model import TinyModelCase

BROWSER = find_browser()
IDLE = "document.getElementById('send').textContent === 'Send'"


class ChatPage(TinyModelCase):
    def open(self):
        served = ServedModel(self.model)
        self.addCleanup(served.__exit__)
        page = BrowserPage(BROWSER, served.address)
        self.addCleanup(page.__exit__)
        page.wait_for("document.getElementById('model').textContent === 'tiny'")
        page.run("document.getElementById('tokens').value = 8")
        return served, page

    def say(self, page, text):
        page.run(f"document.getElementById('text').value = {text!r}")
        page.run("document.getElementById('send').click()")

    def turns(self, page):
        return page.run("[...document.querySelectorAll('.turn span')].map((turn) => turn.textContent)")

    def prompt_tokens(self, page):
        note = page.run("document.querySelector('.turn small').textContent")
        return int(re.match(r"\d+ tokens after (\d+)", note)[1])

    def generate(self, *words):
        code, out, error = self.run_verb("generate", self.model, "--max-new-tokens", "8", *words)
        self.assertEqual(code, 0, error)
        return out.decode("utf-8", "replace").removesuffix("\n")

    def test_a_chat_with_pictures(self):
        self.make_vision_model()
        _, page = self.open()
        picture = png(56, 56, lambda x, y: 250 * (x > 20 and y < 30))
        path = self.write_bytes("spot.png", picture)
        page.run(f"""(async () => {{
          const bytes = Uint8Array.from(atob('{base64.b64encode(picture).decode()}'), (c) => c.charCodeAt(0));
          const list = new DataTransfer();
          list.items.add(new File([bytes], 'spot.png', {{ type: 'image/png' }}));
          const file = document.getElementById('file');
          file.files = list.files;
          file.dispatchEvent(new Event('change'));
        }})()""")
        page.wait_for("document.querySelectorAll('#pictures img').length === 1")
        self.say(page, "what?")
        page.wait_for(f"document.querySelector('.turn small') && {IDLE}")
        self.assertEqual(self.turns(page), ["what?", self.generate("--prompt", "what?", "--image", path)])
        self.assertEqual(page.run("document.querySelector('.turn.user img').naturalWidth"), 56)
        with_picture = self.prompt_tokens(page)
        self.say(page, "and?")
        page.wait_for(f"document.querySelectorAll('.turn small').length === 2 && {IDLE}")
        page.run("document.getElementById('reset').click()")
        page.run("document.getElementById('system').value = 'Be brief.'")
        self.say(page, "why?")
        page.wait_for(f"document.querySelector('.turn small') && {IDLE}")
        self.assertEqual(self.turns(page),
                         ["why?", self.generate("--prompt", "why?", "--system", "Be brief.")])
        page.run("document.getElementById('reset').click()")
        page.run("document.getElementById('system').value = ''")
        self.say(page, "what?")
        page.wait_for(f"document.querySelector('.turn small') && {IDLE}")
        self.assertEqual(with_picture - self.prompt_tokens(page), 6)  # 16 patches, start and end
        self.assertEqual(page.console, [])

    def test_text_is_text_and_errors_are_shown(self):
        served, page = self.open()
        self.say(page, "<img src=x onerror=alert(1)>")
        page.wait_for(f"document.querySelector('.turn small') && {IDLE}")
        self.assertEqual(self.turns(page)[0], "<img src=x onerror=alert(1)>")
        self.assertEqual(page.run("document.querySelectorAll('#chat img').length"), 0)
        self.assertEqual(page.console, [])
        self.say(page, "why? " * 200)
        page.wait_for(f"document.querySelector('.turn.error') && {IDLE}")
        self.assertIn("the prompt fills the model's context", self.turns(page)[-1])
        self.say(page, "why?")  # the turn that could not be answered is forgotten
        page.wait_for(f"document.querySelectorAll('.turn small').length === 2 && {IDLE}")
        page.run("document.getElementById('tokens').value = 300")
        self.say(page, "stop")
        page.wait_for("document.querySelectorAll('.turn.assistant').length === 3 && "
                      "[...document.querySelectorAll('.turn.assistant span')].pop().textContent")
        page.run("document.getElementById('send').click()")
        page.wait_for(IDLE)
        self.assertEqual(served.stop(), (0, "stopped\n", ""))


if __name__ == "__main__":
    unittest.main()
