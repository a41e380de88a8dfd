"""A profile of the demo's model with made-up times, for tests of verbs that read one."""


def profile_of_demo():
    """Returns a profile with made-up times of the demo's layers."""
    def table(module, layer):
        points = [{"tokens": tokens, "forward_ns": 4000 * tokens, "input_gradient_ns": 5000 * tokens,
                   "weight_gradient_ns": 3000 * tokens, "recompute_ns": 4000 * tokens,
                   "activation_bytes": 7000 * tokens, "activation_recomputed_bytes": 600 * tokens}
                  for tokens in (100, 1000)]
        return {"module": module, "layer": layer, "dtype": "float32", "tp": 1, "threads": 1,
                "parameter_bytes": 500000, "points": points}

    layers = [("backbone", "embedding"), ("backbone", "block"), ("backbone", "head"), ("projector", "projector"),
              ("vision", "patch_embedding"), ("vision", "block"), ("vision", "window_block")]
    points = [{"ranks": 2, "bytes": size, "ns": 100000 + size} for size in (1024, 1 << 20)]
    return {"format": "tributary.profile/1", "model": "demo", "device": "cpu", "cores": 2, "memory_bytes": 1 << 33,
            "layers": [table(*each) for each in layers],
            "collectives": [{"op": op, "points": points}
                            for op in ("all_reduce", "all_gather", "reduce_scatter", "send")],
            "steps": [{"ranks": 1, "threads": 1, "step_ns": 200000, "microbatch_ns": 300000,
                       "optimizer_ns": 1000000, "parameters": 1000000, "process_bytes": 200000000}]}
