"""What `vllm serve` imports before it does anything: here, too, it starts a thread.

STANDIN_IMPORTS has it `die`, `die later`, once it would serve, or `hang`. A `torch` that a test
offers is imported.
"""

import os
import threading
from contextlib import suppress

threading.Thread(target=threading.Event().wait, daemon=True).start()
with suppress(ModuleNotFoundError):
    import torch  # noqa: F401

if os.environ.get("STANDIN_IMPORTS") == "die":
    raise RuntimeError("these imports fail")
if os.environ.get("STANDIN_IMPORTS") == "hang":
    threading.Event().wait()
