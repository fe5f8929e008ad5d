"""What an endpoint tells of itself."""

from servetune.engines.vllm.dialect import DIALECT
from servetune.serving.fingerprint import changes, of_pages

LABELS = ",".join(f'a_label_of_many_{number}="{"x" * 12}"' for number in range(30))


def page(blocks: int) -> str:
    return f'vllm:cache_config_info{{{LABELS},cache_dtype="auto",num_gpu_blocks="{blocks}"}} 1.0\n'


def test_a_cache_of_another_size_shows_among_however_many_labels() -> None:
    before, now = (of_pages([DIALECT], [page(blocks)]) for blocks in (4096, 2048))
    told = changes(before, now)
    assert told is not None and '"num_gpu_blocks": "4096"' in told and '"2048"' in told
    assert of_pages([DIALECT], [page(4096)]) == before
