"""What llama.cpp's server has room for, from its log; a line that is not there leaves None."""

import re
from typing import Any

from servetune.records.sessions import ServerFacts

_SLOTS = re.compile(r"n_slots = (\d+), n_ctx_slot = (\d+), kv_unified = '(true|false)'")
_CACHE_TYPES = re.compile(r"^KV cache types: (\w+), (\w+)$", re.MULTILINE)
"""A line of `inside_serve`."""

_BLOCK_TOKENS = 1
"""A slot keeps as much of a prompt as is the same, to the token."""

_DTYPES = {"f16": "float16", "bf16": "bfloat16"}


def read_facts(
    log: str,
    page: str,
    info: dict[str, Any],
    startup_s: float | None = None,
    version: str | None = None,
) -> ServerFacts:
    """Gather what a server that is ready tells of its capacity; see `Dialect.facts`."""
    kinds = set(types.groups() if (types := _CACHE_TYPES.search(log)) else ())
    dtype = "/".join(sorted(_DTYPES.get(kind, kind) for kind in kinds)) or None
    if (found := _SLOTS.search(log)) is None:
        return ServerFacts(
            startup_s=startup_s, kv_cache_dtype=dtype, kv_cache_block_tokens=_BLOCK_TOKENS
        )
    slots, context, is_shared = int(found[1]), int(found[2]), found[3] == "true"
    return ServerFacts(
        startup_s=startup_s,
        kv_cache_dtype=dtype,
        kv_cache_tokens=context * (1 if is_shared else slots),
        kv_cache_block_tokens=_BLOCK_TOKENS,
        max_num_seqs=slots,
        max_model_len=context,
    )
