"""Reads the probe's event file with TensorBoard's own reader.

Usage: event_file_live.py PROBE; further words are ignored
"""

import math
import subprocess
import sys
import tempfile

import numpy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

with tempfile.TemporaryDirectory() as directory:
    subprocess.run([sys.argv[1], directory + "/new"], check=True, stdout=subprocess.DEVNULL)
    events = EventAccumulator(directory + "/new", size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    assert events.Tags()["scalars"] == ["loss", "nested/learning rate ü"], events.Tags()
    for tag, value in [("loss", lambda step: 1 / (1 + step)), ("nested/learning rate ü", math.sin)]:
        read = events.Scalars(tag)
        assert [event.step for event in read] == list(range(1000))
        assert [event.value for event in read] == [numpy.float32(value(step)) for step in range(1000)]
    (text,) = events.Tensors("answers")
    assert text.step == 1000
    assert text.tensor_proto.string_val == [b"x" * 300 + b"\nsecond line"]
    plugin = events.SummaryMetadata("answers").plugin_data.plugin_name
    assert plugin == "text", plugin

    resumed = EventAccumulator(directory + "/resumed")
    resumed.Reload()
    points = [(event.step, event.value) for event in resumed.Scalars("loss")]
    assert points == [(step, 0) for step in range(6)] + [(step, 6) for step in range(6, 13)], points
print("TensorBoard reads 2000 scalars and a text")
