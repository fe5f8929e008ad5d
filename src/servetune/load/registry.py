"""The load generators that a workload can name."""

from servetune.load.client.generator import SERVETUNE
from servetune.load.others.guidellm import GUIDELLM
from servetune.load.others.vllm_bench import VLLM_BENCH

GENERATORS = {each.name: each for each in (SERVETUNE, VLLM_BENCH, GUIDELLM)}
