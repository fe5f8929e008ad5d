"""What llama.cpp's server has room for, as its log tells."""

import pytest

from servetune.engines.llama_cpp.facts import read_facts
from servetune.models.shape import UncountedError
from servetune.models.work import kv_cache_bytes
from servetune.records.sessions import ServerFacts

LOG = """\
KV cache types: f16, f16
0.00.067.919 I srv    load_model: initializing, n_slots = 4, n_ctx_slot = 512, kv_unified = 'false'
"""


def test_each_slot_has_its_own_part_of_the_kv_cache() -> None:
    assert read_facts(LOG, "", {}, 1.5) == ServerFacts(
        startup_s=1.5,
        kv_cache_tokens=2048,
        kv_cache_block_tokens=1,
        kv_cache_dtype="float16",
        max_num_seqs=4,
        max_model_len=512,
    )


def test_slots_of_a_unified_cache_share_one() -> None:
    assert read_facts(LOG.replace("'false'", "'true'"), "", {}).kv_cache_tokens == 512


@pytest.mark.parametrize(
    ("types", "dtype"), [("q8_0, q8_0", "q8_0"), ("q4_0, f16", "float16/q4_0")]
)
def test_the_work_of_a_cache_whose_bytes_are_not_known_is_not_counted(
    types: str, dtype: str
) -> None:
    facts = read_facts(LOG.replace("f16, f16", types), "", {})
    assert facts.kv_cache_dtype == dtype
    with pytest.raises(UncountedError, match="not understood"):
        kv_cache_bytes(facts.kv_cache_dtype)


def test_a_log_that_tells_nothing_leaves_all_but_the_block_unknown() -> None:
    assert read_facts("", "", {}) == ServerFacts(kv_cache_block_tokens=1)
