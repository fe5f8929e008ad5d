"""Real models and devices, as their checkpoints and vendors have them."""

from servetune.records.sessions import Architecture, Ceilings

LLAMA_8B = Architecture(
    layers=32,
    attention_width=4096,
    kv_values_per_token=65_536,
    linear_parameters=6_979_321_856,
    linear_bytes=13_959_176_192,
    head_parameters=525_336_576,
    head_bytes=1_050_673_152,
    stored_bytes=16_060_522_496,
)
EAGLE3 = Architecture(
    layers=1,
    attention_width=4096,
    kv_values_per_token=2048,
    linear_parameters=293_601_280,
    linear_bytes=587_227_136,
    head_parameters=131_072_000,
    head_bytes=262_144_000,
    stored_bytes=849_371_136,
)
H200 = Ceilings(memory_bandwidth_gb_s=4300, bf16_tflop_s=700)
