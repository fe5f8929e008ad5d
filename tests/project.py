"""A copy of the project's declarations for tests of the plan."""

import shutil
from pathlib import Path
from typing import Any

import yaml

from tests.paths import GALLERY, ROOT

PARAMS = """\
max_num_seqs:
max_model_len:
study: {study}
variants: all
repeats:
seed: 0
"""
"""A params.yaml of the tests' own: the project's is for its users to edit."""


TUNE = {
    "base": "bf16",
    "space": {"max_num_seqs": [4, 8]},
    "maximize": "output_throughput_tok_s",
    "workload": "text",
    "at": "c8",
    "budget": {"server_minutes": 20, "launches": 12},
    "confirm": {"best": 1, "repeats": 3},
}
"""A tuning that the quickstart may have."""


class Project:
    """A copy of the project's declarations and the gallery's that a test may edit."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("studies", "workflow", "data/prompts", "data/published", "data/questions"):
            shutil.copytree(ROOT / name, root / name)
        shutil.copytree(GALLERY / "studies", root / "studies", dirs_exist_ok=True)
        (root / "params.yaml").write_text(PARAMS.format(study="quickstart"))
        # More to plan and to compare: every variant takes every workload, a rate by two generators
        # among them, and is launched once unless a test asks for more.
        study = self.study()
        others = self.study("generators")
        study["datasets"]["text"] = others["datasets"]["text"]
        study["workloads"] |= {name: others["workloads"][name] for name in ("open", "guidellm")}
        own = study["variants"]
        own["fp8-kv"] = {"model": "tiny", "server": {"kv_cache_dtype": "fp8"}}
        study["variants"] = {name: own[name] for name in ("bf16", "w8a8", "fp8-kv", "eagle3")}
        for variant in study["variants"].values():
            variant.pop("repeats", None)
        del study["repeats"]
        self.write_study(study)

    @property
    def params(self) -> dict[str, Any]:
        params: dict[str, Any] = yaml.safe_load((self.root / "params.yaml").read_text())
        return params

    def study(self, name: str = "quickstart") -> dict[str, Any]:
        path = self.root / "studies" / f"{name}.yaml"
        # By libyaml: hundreds of tests edit a study.
        study: dict[str, Any] = yaml.load(path.read_text(), yaml.CSafeLoader)
        return study

    def write_study(self, content: dict[str, Any], name: str = "quickstart") -> None:
        text = yaml.dump(content, Dumper=yaml.CSafeDumper, sort_keys=False)
        (self.root / "studies" / f"{name}.yaml").write_text(text)
