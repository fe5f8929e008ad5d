"""What a plan says of delays between turns, of turns at once and of recorded answers."""

import json
from typing import Any

import pytest

from servetune.errors import UserError
from servetune.plan.make import plan_to_measure
from servetune.plan.planned import Plan
from tests.project import Project

FILE = {"kind": "file", "path": "own.jsonl"}
TALKS = {
    "kind": "conversations",
    "conversations": 4,
    "turns": 2,
    "starters": {"count": 1, "words": 9},
    "follow_up_words": 9,
    "output_tokens": 4,
}


def turns(*given: dict[str, Any]) -> str:
    """A line of a file: a conversation of turns with these fields."""
    said = [{"prompt": "say", "output_tokens": 4, **turn} for turn in given]
    return json.dumps({"turns": said}) + "\n"


def plan(project: Project, dataset: dict[str, Any], lines: str = "", **workload: Any) -> Plan:
    (project.root / "own.jsonl").write_text(lines)
    study = project.study()
    study["datasets"]["own"] = dataset
    study["workloads"] = {
        "own": {
            **{"dataset": "own", "load_points": [{"concurrency": 1, "requests": 4}]},
            **workload,
        }
    }
    study.pop("quality", None)
    project.write_study(study)
    return plan_to_measure(project.params, project.root)


def refused(project: Project, *given: Any, **workload: Any) -> str:
    with pytest.raises(UserError) as caught:
        plan(project, *given, **workload)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_only_the_own_client_sends_is_refused_by_its_name(project: Project) -> None:
    answered = turns({"answer": "yes"}, {})
    for generator in ("vllm-bench", "guidellm"):
        others: dict[str, Any] = {"generator": generator}
        for words, given, workload in (
            ("delays between turns", (TALKS,), {"turn_delay_s": 1}),
            ("recorded answers as the history", (FILE, answered), {"history": "recorded"}),
            ("turns that name what they wait for", (FILE, turns({}, {"after": []})), {}),
        ):
            line = refused(project, *given, **workload, **others)
            assert f"workloads.own.generator: {generator} cannot send {words}" in line
            assert line.endswith("; leave generator out: servetune can")
            plan(project, *given, **workload)


def test_delays_of_a_dataset_without_any_are_refused(project: Project) -> None:
    line = refused(project, FILE, turns({}, {}), turn_delay_s="trace")
    assert "workloads.own.turn_delay_s: own has no delays; use seconds, or a file with" in line
    plan(project, FILE, turns({}, {"delay_s": 1.5}), turn_delay_s="trace")


def test_a_missing_answer_is_told_with_its_row_and_turn(project: Project) -> None:
    lines = turns({"answer": "a"}, {}) + turns({"answer": "a"}, {}, {})
    line = refused(project, FILE, lines, history="recorded")
    assert "workloads.own.history: own: row 2, turn 2 has no answer" in line
    assert "own: row 1, turn 1 has no answer" in refused(project, TALKS, history="recorded")


def test_what_each_kind_of_file_has_to_repeat_is_known(project: Project) -> None:
    path = {"path": "own.jsonl"}
    chat = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Ho"}]
    chats = json.dumps({"conversations": chat * 2})
    question = json.dumps({"question_id": 1, "turns": ["Hi", "Why?"]})
    session = json.dumps({"session_id": "a", "messages": [{"role": "user", "content": "Hi"}]})
    recorded = {"history": "recorded"}
    plan(project, {"kind": "sharegpt", "turns": 2, **path}, chats, **recorded)
    plan(project, {"kind": "agents", "output_tokens": 4, **path}, f"{session}\n" * 2, **recorded)
    for kind, lines in (("sharegpt", chats), ("questions", question)):
        given = {"kind": kind, "turns": 2, "output_tokens": 4, **path}
        assert "has no answer that later turns can repeat" in refused(
            project, given, lines, **recorded
        )


@pytest.mark.parametrize(("after", "turn"), [([1], 1), ([2], 1), ([0, 5], 2)])
def test_a_turn_that_waits_for_itself_or_a_later_one_is_refused_with_its_line(
    project: Project, after: list[int], turn: int
) -> None:
    given: list[dict[str, Any]] = [{}, {}, {}]
    given[turn] = {"after": after}
    line = refused(project, FILE, turns({}) + turns(*given))
    expected = f"own.jsonl: line 2: turns.{turn}.after: expected places of turns before it, from 0"
    assert expected in line


def test_delays_and_history_are_part_of_what_is_measured_only_where_they_are_declared(
    project: Project,
) -> None:
    def ids(**workload: Any) -> list[str]:
        found = plan(project, FILE, turns({"answer": "a"}, {}), **workload)
        return [measurement.id for measurement in found.measurements]

    before = ids()
    assert ids(turn_delay_s=0, history="answers") == before
    others = [ids(turn_delay_s=1), ids(turn_delay_s={"min": 1, "max": 2}), ids(history="recorded")]
    assert len({*map(tuple, [before, *others])}) == 4


def test_no_capacity_is_searched_over_the_rate_at_which_conversations_begin(
    project: Project,
) -> None:
    limits = {"slo": {"all": {"ttft_p99_ms": 500}}, "lowest": 1, "highest": 8}
    line = refused(project, TALKS, load_points=[], capacity=limits)
    assert "workloads.own.capacity: own has conversations" in line
    assert line.endswith("search over: concurrency, or give load_points with rates and an slo")
    plan(project, TALKS, load_points=[], capacity={**limits, "over": "concurrency"})
