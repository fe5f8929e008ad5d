"""A declared variant, by a launch of another: what its server takes, held against its own."""

from dataclasses import astuple
from functools import cache

import pytest

from servetune.predict.declared import declared_other, with_candidates
from servetune.predict.fit import Fitted
from servetune.predict.other import Launched, served_as
from servetune.predict.recorded import Recorded, launch_of, read_loads
from servetune.study.study import read_study
from tests.paths import GALLERY

STUDY = "h200-llama8b-varied"
FITTED = Fitted(2e-3, 1.3, 8e-6, 1e-3, 3e-3, 50e-6, 18e-3)


@cache
def recorded() -> dict[str, list[Recorded]]:
    return read_loads(read_study(STUDY, GALLERY), STUDY, GALLERY)


@pytest.mark.parametrize(
    ("source", "variant"),
    [
        *(("bf16", other) for other in ("fp8", "w8a8", "fp8-kv", "fp8-fp8-kv", "eagle3-2.5")),
        *((other, "bf16") for other in ("fp8-fp8-kv", "eagle3-2.5")),
    ],
)
def test_steps_and_room_of_a_variant_are_those_that_its_own_launch_has(
    source: str, variant: str
) -> None:
    record, load = recorded()[source][-1]
    launch, study = launch_of(record, STUDY, GALLERY), read_study(STUDY, GALLERY)
    found = declared_other(study, STUDY, variant, (source, launch), recorded(), GALLERY)
    pattern = served_as(Launched(launch, FITTED, load), found.other).pattern
    own = recorded()[variant][-1][1]
    # Each launch measured what its device can do anew.
    assert astuple(pattern.bounds) == pytest.approx(astuple(own.bounds), rel=0.05)
    assert pattern.scheduler.kv_blocks == pytest.approx(own.scheduler.kv_blocks, rel=0.01)
    assert pattern.scheduler.accepted == own.scheduler.accepted
    assert found.unknown == ()


def test_a_candidate_of_a_tuning_is_a_variant_to_predict() -> None:
    study = with_candidates(read_study("h100-tune", GALLERY))
    loads = read_loads(study, "h100-tune", GALLERY)
    name = "kv_cache_dtype-fp8-max_num_seqs-512-max_num_batched_tokens-16384"
    base = ("bf16", launch_of(loads["bf16"][-1][0], "h100-tune", GALLERY))
    found = declared_other(study, "h100-tune", name, base, loads, GALLERY)
    assert found.other.arguments["max_num_batched_tokens"] == 16384
    assert found.other.arguments["kv_cache_dtype"] == "fp8"
