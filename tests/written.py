"""A project with a file of every kind that it writes."""

import shutil
from pathlib import Path

import pandas as pd

from servetune.engines.environments import BuiltEngine
from servetune.files import write_json, write_table
from servetune.models.make import MANIFEST, ModelManifest
from servetune.plan.file import keep_plan
from servetune.records.quality import QualityRecord
from servetune.records.sessions import Ceilings, read_session
from servetune.tables.freshness import tables_digest, write_stamp
from tests.recorded import plan_of, results_of

STUDY = "h200-capacity"


def write_project(folder: Path) -> Path:
    """Write recorded results, a plan, a dataset and a model; beside them a cache.

    Returns:
        The root of the project; the cache is the folder `cache` beside it.
    """
    root, cache = folder / "project", folder / "cache"
    shutil.copytree(results_of(STUDY), root / "results" / STUDY)
    write_stamp(root / "results" / STUDY / "tables.sha256", tables_digest(plan_of(STUDY), root))
    keep_plan(plan_of(STUDY), root)
    (root / "data" / "workloads").mkdir(parents=True)
    (root / "data" / "workloads" / "text-0.jsonl").write_text('{"prompt": "a"}\n' * 9)
    write_json(
        root / "data" / "models" / "tiny-0" / MANIFEST, ModelManifest(id="tiny-0", checkpoint=".")
    )
    for path in sorted((root / "results" / STUDY / "sessions").glob("*.json")):
        launch = read_session(path).launches[0]
        raw = root / "results" / "raw" / STUDY / path.stem
        write_json(raw / f"launch-{launch.launch}.json", launch)
        samples = pd.DataFrame({"time_s": [0.0], "measurement": [""], "requests_running": [0.0]})
        write_table(raw / f"telemetry-{launch.launch}.parquet", samples)
    quality = QualityRecord(
        quality="bf16-quality-0",
        study=STUDY,
        variant="bf16",
        status="failed",
        session="bf16-r1-0",
        launch=1,
        corpus="text-0",
        server_command=[],
    )
    write_json(root / "results" / STUDY / "quality" / f"{quality.quality}.json", quality)
    write_json(cache / "ceilings" / "0.json", Ceilings(memory_bandwidth_gb_s=23.0))
    python = folder / "python"
    python.touch()
    engine = BuiltEngine(name="vllm-cpu", python=python, versions={})
    write_json(cache / "engines" / "vllm-cpu-0" / "engine.json", engine)
    return root
