# Rounds of launches, each chosen by what the ones before it measured: of a tuning, or of a rule
# that launches until it is decided.
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
