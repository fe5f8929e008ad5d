"""The least that parts of a step take, of a recorded launch."""

import pytest

from servetune.models.work import passes
from servetune.predict.bounds import bounds_of, overhead_of_s
from servetune.records.sessions import Launch, read_session
from tests.paths import GALLERY


def recorded(variant: str, study: str = "h200-llama8b") -> Launch:
    [path] = (GALLERY / "results" / study / "sessions").glob(f"{variant}-r1-*.json")
    return read_session(path).launches[0]


def test_a_draft_reads_all_tokens_and_takes_a_part_of_each_step() -> None:
    plain, drafting = recorded("bf16"), recorded("eagle3-2.5")
    base, with_draft = bounds_of(plain), bounds_of(drafting)
    assert base and with_draft and drafting.model and drafting.draft and drafting.ceilings
    share = passes(drafting.draft, 1).flops / passes(drafting.model, 1).flops
    assert with_draft.token_s / base.token_s == pytest.approx(1 + share, rel=0.02)
    bandwidth = drafting.ceilings.bandwidth_byte_s
    assert overhead_of_s(drafting.model, None, 0, bandwidth) == 0
    taken = [overhead_of_s(drafting.model, drafting.draft, n, bandwidth) for n in (1, 3)]
    assert 0 < taken[0] < taken[1] == pytest.approx(3 * taken[0])


def test_8_bits_halve_multiplications_and_nothing_else_of_a_token() -> None:
    base, fp8, kv = (bounds_of(recorded(name)) for name in ("bf16", "fp8", "fp8-kv"))
    assert base and fp8 and kv
    assert 0.5 <= fp8.token_s / base.token_s < 0.6
    assert fp8.vector_s == pytest.approx(base.vector_s, rel=0.02)
    assert kv.context_s / base.context_s == pytest.approx(0.73, rel=0.02)
    assert base.quantizing_s == 0
    # As one client at 256 and 1,024 tokens has it in the study fp8-kv-context.
    assert kv.quantizing_s == pytest.approx(0.113e-3, rel=0.05)


def test_an_fp8_kv_cache_pays_more_where_memory_is_slower() -> None:
    # The study h100-fp8-kv-context found 0.52 of bf16's slope over context. An H200 has 0.73.
    fp8 = recorded("one", "h100-front-end")
    server = fp8.server.model_copy(update={"kv_cache_dtype": "auto"})
    kv, base = bounds_of(fp8), bounds_of(fp8.model_copy(update={"server": server}))
    assert kv and base
    assert kv.context_s / base.context_s == pytest.approx(0.52, rel=0.03)
