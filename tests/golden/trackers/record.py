"""Records with MLflow and W&B what their own clients write for a run: record.py.

Needs mlflow-skinny==3.17.2 and wandb==0.31.0 beside this Python; writes mlflow.json and run.wandb
beside this file.
"""

import glob
import json
import os
import pathlib
import tempfile

HERE = pathlib.Path(__file__).parent
FIGURES = {1: {"loss": 2.5, "seconds/forward": 0.25}, 2: {"loss": 1.5, "seconds/forward": 0.5}}


def record_mlflow():
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    from mlflow import MlflowClient
    with tempfile.TemporaryDirectory() as store:
        client = MlflowClient(tracking_uri=f"file:{store}")
        run = client.create_run(client.create_experiment("tributary"), run_name="demo").info.run_id
        for step, figures in FIGURES.items():
            for name, value in figures.items():
                client.log_metric(run, name, value, step=step)
        client.log_param(run, "run.steps", "2")
        client.set_terminated(run)
        files = {str(path.relative_to(store)): path.read_text()
                 for path in sorted(pathlib.Path(store).rglob("*")) if path.is_file()}
    (HERE / "mlflow.json").write_text(json.dumps(files, indent=1) + "\n")


def record_wandb():
    import wandb
    with tempfile.TemporaryDirectory() as folder:
        run = wandb.init(project="tributary", name="demo", config={"run.steps": 2}, dir=folder,
                         mode="offline", settings=wandb.Settings(x_disable_stats=True,
                                                                 x_disable_meta=True))
        for step, figures in FIGURES.items():
            run.log(figures, step=step)
        run.finish()
        (file,) = glob.glob(f"{folder}/wandb/offline-run-*/run-*.wandb")
        (HERE / "run.wandb").write_bytes(pathlib.Path(file).read_bytes())


record_mlflow()
record_wandb()
