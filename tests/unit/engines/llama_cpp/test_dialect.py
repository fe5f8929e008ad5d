"""What llama.cpp's server is started with, and what of its caches cannot be emptied."""

import enum

import pytest

from servetune.engines.dialect import Tiers
from servetune.engines.llama_cpp.dialect import DIALECT as LLAMA_CPP
from servetune.engines.llama_cpp.inside_serve import words_of
from servetune.engines.registry import dialect_of


class Kind(enum.IntEnum):
    GGML_TYPE_F16 = 1
    GGML_TYPE_Q8_0 = 8
    GGML_TYPE_COUNT = 42


def test_an_environment_with_the_binding_speaks_the_dialect_of_llama_cpp() -> None:
    assert dialect_of({"python": "3.11", "xllamacpp": "2026.10.11549"}) is LLAMA_CPP
    assert dialect_of({"vllm": "0.32.0"}).family.name == "vllm"


def test_a_type_is_named_by_what_is_its_own_of_its_name() -> None:
    assert words_of(Kind) == {"f16": Kind.GGML_TYPE_F16, "q8_0": Kind.GGML_TYPE_Q8_0}


@pytest.mark.parametrize(
    ("server", "kept"),
    [({}, ("cache_ram_mib",)), ({"cache_ram_mib": 100}, ("cache_ram_mib",))],
)
def test_prompts_that_are_kept_in_memory_are_told_as_what_cannot_be_emptied(
    server: dict[str, int], kept: tuple[str, ...]
) -> None:
    assert LLAMA_CPP.tiers({}, server) == Tiers(kept, kept)


def test_with_no_memory_for_prompts_there_are_slots_alone() -> None:
    assert LLAMA_CPP.tiers({}, {"cache_ram_mib": 0}) == Tiers()
