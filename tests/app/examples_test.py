"""The examples for clusters: the Kubernetes manifest against its schema, the batch script by bash.

pytorchjob_schema.json is cut from the CustomResourceDefinition pytorchjobs.kubeflow.org of
training-operator v1.9.0: every property name on the way to what the manifest uses, with types,
enumerations and required keys; descriptions and the insides of properties that it does not use are
left out.
"""

import copy
import json
import re
import subprocess
import unittest
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((Path(__file__).parent / "pytorchjob_schema.json").read_text())
MANIFEST = ROOT / "examples/kubernetes/pytorchjob.yaml"
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool,
         "number": (int, float)}


def violations(value, schema, path="job"):
    """Lists violations of the schema, unknown keys too, because the API server drops them silently."""
    if schema.get("x-kubernetes-int-or-string"):
        if not isinstance(value, (int, str)):
            yield f"{path}: not a number or text"
        return
    kind = schema.get("type")
    if kind and (not isinstance(value, TYPES[kind]) or (kind == "integer" and value is True)):
        yield f"{path}: not of type {kind}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value} is not one of {schema['enum']}"
    if value.__class__ is int and "minimum" in schema and value < schema["minimum"]:
        yield f"{path}: {value} is below {schema['minimum']}"
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{path}: {value} does not match {schema['pattern']}"
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from violations(item, schema.get("items", {}), f"{path}[{number}]")
    if isinstance(value, dict):
        for key in schema.get("required", []):
            if key not in value:
                yield f"{path}: {key} is missing"
        properties = schema.get("properties", {})
        others = schema.get("additionalProperties")
        for key, item in value.items():
            if key in properties:
                yield from violations(item, properties[key], f"{path}.{key}")
            elif isinstance(others, dict):
                yield from violations(item, others, f"{path}.{key}")
            elif properties:
                yield f"{path}: unknown key {key}"


class PyTorchJob(unittest.TestCase):
    def setUp(self):
        self.job = yaml.safe_load(MANIFEST.read_text())

    def test_the_manifest_keeps_the_schema(self):
        self.assertEqual(list(violations(self.job, SCHEMA)), [])

    def test_the_schema_notices_mistakes(self):
        container = "spec pytorchReplicaSpecs Master template spec containers".split()

        def breaks(path, change, *words):
            job = copy.deepcopy(self.job)
            place = job
            for key in path:
                place = place[key]
            change(place)
            found = " ".join(violations(job, SCHEMA))
            for word in words:
                self.assertIn(word, found)

        breaks(["spec"], lambda s: s.pop("pytorchReplicaSpecs"), "pytorchReplicaSpecs is missing")
        breaks(["spec", "runPolicy"], lambda s: s.update(cleanPods="All"), "unknown key cleanPods")
        breaks(["spec", "pytorchReplicaSpecs", "Worker"], lambda s: s.update(replicas="two"),
               "Worker.replicas: not of type integer")
        breaks(container, lambda s: s[0].update(imagee="x"), "containers[0]: unknown key imagee")
        breaks(container, lambda s: s[0].pop("name"), "containers[0]: name is missing")

    def test_what_the_operator_demands_beside_the_schema(self):
        replicas = self.job["spec"]["pytorchReplicaSpecs"]
        self.assertEqual(replicas["Master"]["replicas"], 1)
        for name, replica in replicas.items():
            with self.subTest(replica=name):
                self.assertIn(replica["restartPolicy"], {"Always", "OnFailure", "Never", "ExitCode"})
                containers = replica["template"]["spec"]["containers"]
                self.assertIn("pytorch", [container["name"] for container in containers])


class Slurm(unittest.TestCase):
    def test_bash_understands_the_batch_scripts(self):
        for script in ("train", "encoder"):
            subprocess.run(["bash", "-n", ROOT / f"examples/slurm/{script}.sbatch"], check=True)

    def test_an_encoder_gets_the_words_of_the_run(self):
        script = "exec() { echo \"$OMP_NUM_THREADS $*\"; }\n" + (ROOT / "examples/slurm/encoder.sbatch").read_text()
        result = subprocess.run(
            ["bash", "-c", script, "encoder.sbatch", "run.yaml", "parallel.vision.placement=flow"], text=True,
            capture_output=True, check=True, env={"PATH": "/usr/bin:/bin", "SLURM_CPUS_PER_TASK": "8"})
        self.assertEqual(result.stdout.split(), ["8", "srun", "--cpu-bind=cores", "build/release/tributary", "encoder",
                                                 "run.yaml", "parallel.vision.placement=flow"])

    def test_it_gives_srun_what_the_program_asks_for(self):
        """Runs the script with stand-ins for scontrol and srun that print their arguments."""
        stand_ins = """
scontrol() { echo node-a; echo node-b; }
exec() { echo "$MASTER_ADDR $MASTER_PORT $OMP_NUM_THREADS $*"; }
"""
        script = stand_ins + (ROOT / "examples/slurm/train.sbatch").read_text()
        result = subprocess.run(
            ["bash", "-c", script, "train.sbatch", "run.yaml", "run.steps=5"], text=True,
            capture_output=True, check=True,
            env={"PATH": "/usr/bin:/bin", "SLURM_JOB_NODELIST": "node-[a-b]",
                 "SLURM_JOB_ID": "1234567", "SLURM_CPUS_PER_TASK": "8"})
        words = result.stdout.split()
        self.assertEqual(words[:4], ["node-a", "34567", "8", "srun"])
        self.assertEqual(words[-4:], ["run.yaml", "--resume", "auto", "run.steps=5"])


if __name__ == "__main__":
    unittest.main()
