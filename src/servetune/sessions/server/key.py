"""The API key of this user's servers: the same at each launch, in a file of this user's alone."""

import re
import secrets
from contextlib import suppress

from servetune.engines.environments import cache_root
from servetune.errors import UserError
from servetune.files import whole_file


def own_key() -> str:
    """Return the key that clients of this user's servers send; it is made at the first use.

    vLLM 0.26 counts VLLM_API_KEY among what its compiled graphs depend on: with a key of its own,
    each launch compiles them again, which took 17 to 37 s on an H200. So does a user who may not
    write to the cache.
    """
    path = cache_root() / "api-key"
    with suppress(OSError, ValueError):
        if re.fullmatch(r"[\w-]{32}", key := path.read_text(encoding="ascii")):
            return key
    key = secrets.token_urlsafe(24)
    with suppress(UserError), whole_file(path) as temporary:
        temporary.touch(mode=0o600)
        temporary.write_text(key)
    return key
