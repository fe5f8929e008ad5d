# The request datasets.


rule make_workload:
    """Write a request dataset from its declaration and the seed."""
    output:
        "data/workloads/{dataset}.jsonl",
    priority: BEFORE_SESSIONS
    message:
        "Workload {wildcards.dataset}"
    shell:
        "servetune workload {wildcards.dataset} --plan {PLAN_FILE}"
