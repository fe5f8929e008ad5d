# What the rules ask of the plan: inputs, parameters and resources by their wildcards.
SESSIONS = {}


def plan():
    """The plan as it is now: rounds add sessions to it."""
    return latest(PLAN, PLAN_FILE)


def session_of(wildcards):
    if wildcards.session not in SESSIONS:
        SESSIONS.update({session.id: session for session in plan().sessions})
    return SESSIONS[wildcards.session]


def all_cores(wildcards):
    """For preparation, so that none runs beside a session."""
    return given_cores() or 1


def engine_file(name):
    """The description of a pinned environment, which exists once it is built."""
    return str(description_file(engine_id(name, Path())))


def declared_engine(wildcards):
    """What `servetune engine` takes for an engine of the plan, or for another environment."""
    engine = wildcards.engine
    declared = plan().engines.get(engine, engine.rsplit("-", 1)[0])
    return word_of(declared, PLAN.hardware)


def model_file(id):
    return f"data/models/{id}/servetune.json"


def parents_of(wildcards):
    parents = plan().models[wildcards.model].parents
    return [ancient(model_file(id)) for id in parents.values()]


def maker_of(wildcards):
    maker = plan().models[wildcards.model].source.made_by
    return ancient(engine_file(maker) if maker else [])


def leader(wildcards):
    """The session whose launch measures this one; where that is another, it needs no host."""
    return leader_of(session_of(wildcards), plan().sessions, Path())


def need(name):
    """What a session asks of the host: a number by its wildcards."""
    cores = given_cores()
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


def records_of(sessions):
    return [f"{RESULTS}/sessions/{session.id}.json" for session in sessions]


def sessions_of(number):
    """The sessions of a round, once it is chosen."""
    checkpoints.choose_round.get(round=number)
    with one_line():
        return records_of(sessions_of_round(plan(), number))


def follows(wildcards):
    """What a round is chosen by. One that follows from just that is current, whatever their age."""
    number = int(wildcards.round)
    first = records_of(plan().trials_before(1))
    before = sessions_of(number - 1) if number > 1 else first
    if number < NEXT_ROUND:
        return [ancient(file) for file in before]
    return [*before, ROUND_WANTED] if number == NEXT_ROUND else before


def all_sessions(wildcards):
    """The sessions of the plan; those of rounds once they have ended."""
    number = 0
    while PLAN.growing and not (number and plan().growing.rounds[number - 1].ended):
        sessions_of(number := number + 1)
    return records_of(plan().sessions)


def unless_current(wanted, files):
    """The inputs of a step: of any age if it is current, and else such that it runs.

    A file that is always ancient would hide that the step has to run when its maker runs too.
    """
    return ancient(files) if wanted.is_current else files
