"""Run inside the environment of llama.cpp: print its versions and its server's arguments as JSON.

Needs the standard library and xllamacpp.
"""

import json
import sys
from importlib.metadata import version

from servetune.engines.llama_cpp.inside_serve import arguments

TELLING = ("xllamacpp", "gguf", "numpy")


def main() -> None:
    """Print one line."""
    import xllamacpp

    versions = {"python": sys.version.split()[0], **{name: version(name) for name in TELLING}}
    print(json.dumps({"versions": versions, "arguments": arguments(xllamacpp.CommonParams())}))


if __name__ == "__main__":
    main()
