"""How a trainer uses the module: quoted by docs/guides/python.md, run, and type-checked."""

from __future__ import annotations

import tributary
from tributary import SharedModule, UnitCosts

# begin: step
lengths = [512, 2048, 96, 1400, 760, 3000]  # tokens of the global batch's samples
packed = tributary.pack(lengths, capacity=4096, replicas=2)
mine = [sample for sample, sequence in enumerate(packed["assignment"])
        if packed["replica"][sequence] == 0]  # those of replica 0
# end: step

# begin: balance
milliseconds = [(7.0, 3.0), (1.0, 8.0), (9.0, 2.0), (2.0, 9.0)]  # vision, backbone of each sample
shared = tributary.balance(milliseconds, buckets=2, evaluations=100_000)
slowest = shared["value"]
# end: balance

# begin: split
units: list[UnitCosts] = [{"forward_ns": 900, "input_gradient_ns": 1800}]  # the embedding
units += [{"forward_ns": 400, "input_gradient_ns": 400, "weight_gradient_ns": 400}] * 12
split = tributary.split_layers(units, stages=4, microbatches=16)
starts = split["first_unit"]
# end: split

# begin: stages
modules: list[SharedModule] = [
    {"name": "vision", "times_ns": [[150, 100], [80, 60]]},
    {"name": "audio", "times_ns": [[150, 100], [80, 60]]},
    {"name": "backbone", "times_ns": [[400, 300], [220, 160]], "after": ["vision", "audio"]},
]
staging = tributary.group_stages(modules, devices=2, units=2)
together = [[placed["name"] for placed in stage["modules"]] for stage in staging["stages"]]
# end: stages

# begin: errors
try:
    tributary.pack([5000], capacity=4096)
except tributary.Error as error:
    reason = f"{error.where}: {error.found}, not {error.expected}"
# end: errors

if __name__ == "__main__":
    print(len(mine), slowest, starts, together, reason, sep="\n")
