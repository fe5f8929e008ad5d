# The tool environments, in a cache outside the project that outlives clones.
rule build_engine:
    """Install a pinned environment, or ask a host's Python what it serves."""
    output:
        # Left to a run beside this one that has installed it meanwhile.
        update(f"{ENGINES}/{{engine}}/engine.json"),
    log:
        "logs/engine/{engine}.log",
    priority: BEFORE_SESSIONS
    localrule: True
    threads: all_cores
    params:
        declared=declared_engine,
        plan=PLAN_FILE,
    message:
        "Engine {params.declared}"
    shell:
        "servetune --log {log} engine {params.declared:q} --plan {params.plan} > /dev/null"
