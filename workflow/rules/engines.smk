# The tool environments, in a cache outside the project that outlives clones.
from servetune.engines.environments import cache_root, description_file, engine_id
from servetune.study.engines import word_of

ENGINES = str(cache_root() / "engines")


def engine_file(name):
    """The description of a pinned environment, which exists once it is built."""
    return str(description_file(engine_id(name, Path())))


def declared_engine(engine):
    """What `servetune engine` takes for an engine of the plan, or for another environment."""
    declared = plan().engines.get(engine, engine.rsplit("-", 1)[0])
    return word_of(declared, PLAN.hardware)


rule build_engine:
    """Install a pinned environment, or ask a host's Python what it serves."""
    output:
        ENGINES + "/{engine}/engine.json",
    log:
        "logs/engine/{engine}.log",
    priority: BEFORE_SESSIONS
    threads: all_cores
    params:
        declared=lambda wildcards: declared_engine(wildcards.engine),
        plan=PLAN_FILE,
    message:
        "Engine {params.declared}"
    shell:
        "servetune --log {log} engine {params.declared:q} --plan {params.plan} > /dev/null"
