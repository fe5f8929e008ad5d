# The rounds of a tuning, each chosen by what the ones before it measured.
from servetune.tables.freshness import wanted_round

with one_line():
    NEXT_ROUND, ROUND_WANTED = wanted_round(PLAN, Path())


def sessions_of(number):
    """The sessions of a round, once it is chosen."""
    checkpoints.choose_round.get(round=number)
    before, those = plan().trials_before(number), plan().trials_before(number + 1)
    return [f"{RESULTS}/sessions/{session.id}.json" for session in those[len(before) :]]


def follows(wildcards):
    """What a round is chosen by. One that follows from just that is current, whatever their age."""
    number = int(wildcards.round)
    before = sessions_of(number - 1) if number > 1 else []
    if number < NEXT_ROUND:
        return [ancient(file) for file in before]
    return [*before, ROUND_WANTED] if number == NEXT_ROUND else before


def all_sessions(wildcards):
    """The sessions of the plan; those of a tuning once it has ended."""
    number = 0
    while PLAN.tuning and not (number and plan().tuning.rounds[number - 1].ended):
        sessions_of(number := number + 1)
    return collect(
        RESULTS + "/sessions/{session}.json",
        session=[each.id for each in plan().sessions],
    )


checkpoint choose_round:
    """Choose what to launch next, or end, by what was measured so far."""
    input:
        follows,
    output:
        RESULTS + "/tuning/round-{round}.json",
    log:
        f"logs/{PLAN.study}/round/" + "{round}.log",
    wildcard_constraints:
        round=r"\d+",
    params:
        plan=PLAN_FILE,
    message:
        "Round {wildcards.round}"
    shell:
        "servetune --log {log} tune --plan {params.plan}"
