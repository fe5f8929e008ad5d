"""Each trial that has no value says why, by a kind."""

import pytest

from servetune.tables.seen import failure_by
from servetune.tune.trials import Failure
from tests.sessions_data import session

STARTED = "the server did not start"


@pytest.mark.parametrize(
    ("reason", "tail", "kind"),
    [
        (
            f"{STARTED}: ValueError: To serve at least one request with the model's max seq len"
            " (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache"
            " memory (4.0 GiB)",
            [],
            "does not fit",
        ),
        (f"{STARTED}: ended while it started", ["CUDA out of memory. Tried"], "does not fit"),
        (
            f"{STARTED}: ValueError: Free memory on device (3.1/79.1 GiB) on startup is less than"
            " desired GPU memory utilization",
            [],
            "does not fit",
        ),
        ("the server died under load: torch.OutOfMemoryError: HIP", [], "does not fit"),
        (
            f"{STARTED}: ValueError: max_num_batched_tokens (64) must be greater than or equal to"
            " max_num_seqs (128).",
            [],
            "refused",
        ),
        (f"{STARTED}: ValueError: kv_cache_dtype fp8_e5m2 is not supported", [], "refused"),
        (f"{STARTED}: not ready after 900 s", [], "invalid"),
        ("the server died under load: EngineDeadError: EngineCore died.", [], "invalid"),
    ],
)
def test_what_a_server_said_tells_the_kind(reason: str, tail: list[str], kind: Failure) -> None:
    assert failure_by(reason, session("a", {"log_tail": tail})) == kind
