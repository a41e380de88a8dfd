"""Two processes with the variables of Slurm or Open MPI, set by hand, train as under any launcher.

That srun and mpirun set them so is known from their manuals; neither runs here.

usage: launcher_variables.py TRIBUTARY [unittest arguments]
"""

import pathlib
import sys
import tempfile
import unittest

import rank_job
import tiny_run

PROGRAM = None


class LauncherVariables(unittest.TestCase):
    def test_every_launcher_gives_the_same_bits(self):
        found = {}
        with tempfile.TemporaryDirectory() as folder:
            shared = pathlib.Path(folder)
            tiny_run.make_workplace(shared)
            for variables in (rank_job.torch_variables, rank_job.slurm_variables,
                              rank_job.open_mpi_variables):
                name = variables.__name__
                config = tiny_run.write_config(
                    shared / f"{name}.yaml", shared,
                    run={"dir": str(shared / name), "steps": 3},
                    validation={"final_samples_per_source": 1, "max_new_tokens": 1})
                rank_job.run_to_the_end([[PROGRAM, "train", str(config)]] * 2, variables)
                found[name] = (rank_job.losses_of(shared / name),
                               rank_job.tensors_of(shared / name))
        self.assertEqual(found["slurm_variables"], found["torch_variables"])
        self.assertEqual(found["open_mpi_variables"], found["torch_variables"])


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
