# The checkpoints that the servers load.
MODELS = PLAN.models
MADE_HERE = ("tiny", "eagle3", "quantized", "huggingface")


def model_file(id):
    return f"data/models/{id}/servetune.json"


def maker_of(wildcards):
    source = MODELS[wildcards.model].source["source"]
    return engine_file("llmcompressor") if source in MADE_HERE else []


rule make_model:
    """Fetch, train or quantize a checkpoint."""
    input:
        parents=lambda wildcards: [
            ancient(model_file(id)) for id in MODELS[wildcards.model].parents.values()
        ],
        maker=lambda wildcards: ancient(maker_of(wildcards)),
    output:
        "data/models/{model}/servetune.json",
    wildcard_constraints:
        model="[^/]+",
    priority: BEFORE_SESSIONS
    message:
        "Model {wildcards.model}"
    shell:
        "servetune model {wildcards.model} --plan {PLAN_FILE}"
