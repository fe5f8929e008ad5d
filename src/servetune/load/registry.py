"""The load generators that a workload can name."""

from servetune.load.generator import Generator
from servetune.load.guidellm.generator import GUIDELLM
from servetune.load.own.generator import SERVETUNE
from servetune.load.vllm_bench.generator import VLLM_BENCH

GENERATORS: dict[str, Generator] = {each.name: each for each in (VLLM_BENCH, GUIDELLM, SERVETUNE)}
