# The checkpoints that the servers load.
def model_file(id):
    return f"data/models/{id}/servetune.json"


def maker_of(wildcards):
    maker = plan().models[wildcards.model].source.made_by
    return engine_file(maker) if maker else []


rule make_model:
    """Fetch, train or quantize a checkpoint."""
    input:
        parents=lambda wildcards: [
            ancient(model_file(id))
            for id in plan().models[wildcards.model].parents.values()
        ],
        maker=lambda wildcards: ancient(maker_of(wildcards)),
    output:
        "data/models/{model}/servetune.json",
    log:
        "logs/model/{model}.log",
    wildcard_constraints:
        model="[^/]+",
    priority: BEFORE_SESSIONS
    threads: all_cores
    params:
        plan=PLAN_FILE,
    message:
        "Model {wildcards.model}"
    shell:
        "servetune --log {log} model {wildcards.model} --plan {params.plan}"
