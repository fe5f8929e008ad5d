# The rounds of a tuning, each chosen by what the ones before it measured.
checkpoint choose_round:
    """Choose what to launch next, or end, by what was measured so far."""
    input:
        follows,
    output:
        f"{RESULTS}/tuning/round-{{round}}.json",
    log:
        f"logs/{PLAN.study}/round/{{round}}.log",
    wildcard_constraints:
        round=r"\d+",
    localrule: True
    params:
        plan=PLAN_FILE,
    message:
        "Round {wildcards.round}"
    shell:
        "servetune --log {log} tune --plan {params.plan}"
