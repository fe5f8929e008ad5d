# The request datasets.
rule make_workload:
    """Write a request dataset from its declaration and the seed."""
    output:
        "data/workloads/{dataset}.jsonl",
    log:
        "logs/workload/{dataset}.log",
    priority: BEFORE_SESSIONS
    localrule: True
    threads: all_cores
    params:
        plan=PLAN_FILE,
    message:
        "Workload {wildcards.dataset}"
    shell:
        "servetune --log {log} workload {wildcards.dataset} --plan {params.plan}"
