"""The load generators that a workload can name."""

from servetune.load.guidellm.generator import GUIDELLM
from servetune.load.own.generator import SERVETUNE
from servetune.load.vllm_bench.generator import VLLM_BENCH

GENERATORS = {each.name: each for each in (SERVETUNE, VLLM_BENCH, GUIDELLM)}
