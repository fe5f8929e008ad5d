"""A reader sees what servers chose by themselves, where they differ, and what they ignored."""

from typing import Any

from servetune.report.choices import cautions, chosen, ignored
from tests.sessions_data import by_id, session


def told(backend: str, *messages: str, **launch: Any) -> dict[str, Any]:
    return {"choices": {"attention backend": backend}, "ignored": list(messages), **launch}


def test_a_choice_of_all_is_told_once_and_another_with_its_variants() -> None:
    same = by_id(session("bf16", told("FLASH_ATTN")), session("w8a8", told("FLASH_ATTN")))
    assert chosen(same) == ["attention backend: FLASH_ATTN"]
    assert cautions(same) == []
    other = by_id(session("bf16", told("FLASH_ATTN")), session("w8a8", told("FLASHINFER")))
    assert chosen(other) == [
        "attention backend: FLASH_ATTN (bf16)",
        "attention backend: FLASHINFER (w8a8)",
    ]
    (caution,) = cautions(other)
    assert "attention backend" in caution
    assert "FLASH_ATTN (bf16) and FLASHINFER (w8a8)" in caution


def test_launches_of_one_variant_that_chose_differently_are_named() -> None:
    (caution,) = cautions(
        by_id(
            session("bf16", told("FLASH_ATTN")),
            session("bf16", told("FLASHINFER"), repeat=2),
            session("w8a8", told("FLASHINFER")),
        )
    )
    assert caution.startswith("Launches of bf16 differ")


def test_what_older_records_do_not_tell_is_not_known() -> None:
    assert chosen(by_id(session("bf16", {}))) == ["not known"]
    mixed = by_id(session("bf16", {}), session("w8a8", told("FLASHINFER")))
    assert chosen(mixed) == ["attention backend: FLASHINFER (w8a8)", "not known (bf16)"]
    assert cautions(mixed) == []


def test_ignored_settings_are_told_with_their_variants() -> None:
    message = "Disabling chunked prefill"
    sessions = by_id(session("bf16", told("FLASH_ATTN", message)), session("w8a8", told("A")))
    assert ignored(sessions) == [f"{message} (bf16)"]


def test_a_variable_that_the_study_sets_and_no_server_knows_is_the_studys_mistake() -> None:
    message = (
        "Unknown vLLM environment variable detected: VLLM_SAMPLERS; did you mean VLLM_SAMPLER?"
    )
    its_own = told("FLASH_ATTN", message, environment={"VLLM_SAMPLERS": "0"})
    (caution,) = cautions(by_id(session("bf16", its_own), session("bf16", its_own, repeat=2)))
    assert "VLLM_SAMPLERS for bf16" in caution
    assert caution.endswith("did you mean VLLM_SAMPLER?")
    assert cautions(by_id(session("bf16", told("FLASH_ATTN", message)))) == []
