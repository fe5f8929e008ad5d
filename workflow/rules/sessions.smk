# Serving and loading: the only step that needs the accelerator, and the only one that a cluster
# gets: the others are short, or need a network.
rule measure_session:
    """Serve one variant, send it every load point that it owes, record what happened."""
    input:
        ancient(needs_of),
    output:
        f"{RESULTS}/sessions/{{session}}.json",
    log:
        f"logs/{PLAN.study}/session/{{session}}.log",
    # What the session and its server took of the host; no target, so that a clone measures nothing.
    benchmark:
        f"logs/{PLAN.study}/session/{{session}}.tsv"
    # In the plan's order, after all preparation.
    priority: lambda wildcards: MOST_SESSIONS - session_of(wildcards).order
    threads: need("threads")
    resources:
        gpu=need("gpu"),
        mem_mb=need("mem_mb"),
    params:
        plan=PLAN_FILE,
    message:
        "Session {wildcards.session}"
    shell:
        "servetune --log {log} session {wildcards.session} --plan {params.plan}"
