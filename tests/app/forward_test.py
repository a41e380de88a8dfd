"""Runs `tributary forward` as a user does: the words for bad inputs.

Usage: forward_test.py TRIBUTARY
"""

import os
import unittest

from tiny_model import TinyModelCase


class Forward(TinyModelCase):
    def test_forward_refuses_bad_input(self):
        ids = ("I64", [1, 3], [1, 2, 3])
        for tensors, more, *expected in (
                ({"input_ids": ids}, ["--gradients"], "app: gradients need a loss"),
                ({"input_ids": ids}, ["--mrope", "odd"], "app: unknown position mode",
                 "expected: hf5 or official"),
                ({"input_ids": ids, "labels": ("I64", [1, 3], [7, -100, -100])}, [],
                 "app: labels hold no target"),
                ({"input_ids": ("I64", [1, 2], [1, 999])}, [],
                 "token id outside the vocabulary", "found: id 999"),
                ({"input_ids": ids, "pixel_values": ("F32", [1, 2], [0, 0]),
                  "image_grid_thw": ("I64", [1, 3], [1, 1, 1])}, [], "found: 1 images"),
                ({"input_idz": ids}, [], "nearest known name: input_ids"),
                ({"model.embed_tokens.weight": ids}, [],
                 "expected: the names that a Hugging Face processor gives: input_ids, ... [")):
            with self.subTest(expected[0]):
                self.assert_refused(self.forward_words(tensors, *more), *expected)
                self.assertFalse(os.path.exists(self.path("out.safetensors")))

    def test_forward_names_inputs_that_cannot_be_read(self):
        output = ["-o", self.path("out.safetensors")]
        self.assert_refused(["forward", self.model, self.path("none.safetensors"), *output],
                            "app: inputs cannot be read", "none.safetensors", "No such file")
        self.assert_refused(["forward", self.model, self.folder, *output],
                            "app: inputs cannot be read", "found: a directory")
        note = self.write_bytes("note.safetensors", b"hello, this is text")
        self.assert_refused(["forward", self.model, note, *output], "safetensors: ", note)

    def test_forward_names_missing_weights(self):
        words = self.forward_words({"input_ids": ("I64", [1, 1], [1])})
        os.remove(self.path("model/model.safetensors"))
        self.assert_refused(words, "weights: no safetensors in the directory")


if __name__ == "__main__":
    unittest.main()
