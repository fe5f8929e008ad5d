# The checkpoints that the servers load.
rule make_model:
    """Fetch, train or quantize a checkpoint."""
    input:
        parents=parents_of,
        maker=maker_of,
    output:
        "data/models/{model}/servetune.json",
    log:
        "logs/model/{model}.log",
    wildcard_constraints:
        model="[^/]+",
    priority: BEFORE_SESSIONS
    localrule: True
    threads: all_cores
    params:
        plan=PLAN_FILE,
    message:
        "Model {wildcards.model}"
    shell:
        "servetune --log {log} model {wildcards.model} --plan {params.plan}"
