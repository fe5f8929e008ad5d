# Serving and loading: the only step that needs the accelerator.
from servetune.plan.sharing import leader_of, sharing
from servetune.sessions.needs import most_gpus, needs

MOST_GPUS = most_gpus(PLAN.hardware)
if MOST_GPUS and workflow.local_exec and "gpu" not in workflow.global_resources:
    workflow.register_resource("gpu", MOST_GPUS)


def leader(wildcards):
    """The session whose launch measures this one; where that is another, it needs no host."""
    return leader_of(session_of(wildcards), plan().sessions, Path())


def need(name):
    """What a session asks of the host: a number by its wildcards."""
    cores = workflow.resource_settings.cores
    return lambda wildcards: needs(
        session_of(wildcards),
        cores,
        MOST_GPUS,
        is_led=leader(wildcards).id != wildcards.session,
    )[name]


def needs_of(wildcards):
    """What a session starts from. A session with a record starts no more, so needs nothing."""
    session = session_of(wildcards)
    if Path(RESULTS, "sessions", f"{session.id}.json").is_file():
        return []
    if (first := leader(wildcards)).id != session.id:
        return [f"{RESULTS}/sessions/{first.id}.json"]
    return [
        file
        for each in sharing(session, plan().sessions)
        for file in (
            *(str(description_file(id)) for id in each.engines),
            *map(engine_file, each.tools),
            *map(model_file, each.models),
            *(f"data/workloads/{dataset}.jsonl" for dataset in each.datasets),
        )
    ]


rule measure_session:
    """Serve one variant, send it every load point that it owes, record what happened."""
    input:
        ancient(needs_of),
    output:
        RESULTS + "/sessions/{session}.json",
    log:
        f"logs/{PLAN.study}/session/" + "{session}.log",
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
