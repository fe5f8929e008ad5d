"""A lockstep is told once for all load points of the same variants."""

from servetune.report.lockstep import cautions


def test_load_points_of_the_same_variants_are_told_of_together() -> None:
    waves = {("text", "c4"): ["bf16"], ("text", "c8"): ["bf16"], ("text", "c16"): ["bf16", "fp8"]}
    first, second = cautions(waves)
    assert "text · c4 and c8 the clients of bf16 send" in first
    assert "text · c16 the clients of bf16 and fp8 send" in second
