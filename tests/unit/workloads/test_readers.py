"""What the readers of others' formats take, and what they say of a file that cannot serve."""

import gzip
import json
import re
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from servetune.errors import UserError
from servetune.plan.planned import PlannedDataset
from servetune.workloads.datasets import read_requests, write_dataset

FILE = {"kind": "file"}
LONG = {"kind": "file", "output_tokens": 8}
QUESTIONS = {"kind": "questions", "output_tokens": 8}
AGENTS = {"kind": "agents", "output_tokens": 8}
BURST = {"kind": "burstgpt"}
MOONCAKE = {"kind": "mooncake", "block_tokens": 8}
SHAREGPT = {"kind": "sharegpt"}


def lines(*records: Any) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def rows(folder: Path, content: bytes, spec: dict[str, Any], name: str = "own.jsonl") -> list[Any]:
    (folder / name).write_bytes(content)
    declared = {"path": name, **spec}
    planned = PlannedDataset.model_validate({"id": "x-0", "spec": declared, "seed": 0})
    out = folder / "out"
    write_dataset(planned, out, folder)
    return read_requests(out)


def refused(folder: Path, content: bytes, spec: dict[str, Any], name: str = "own.jsonl") -> str:
    with pytest.raises(UserError) as caught:
        rows(folder, content, spec, name)
    line = str(caught.value)
    assert "\n" not in line
    return line.removeprefix(f"{folder}/")


def parquet(folder: Path, records: list[dict[str, Any]]) -> bytes:
    columns = {
        key: [record.get(key) for record in records] for key in dict.fromkeys(chain(*records))
    }
    pq.write_table(pa.table(columns), folder / "made.parquet")
    return (folder / "made.parquet").read_bytes()


OWN: list[dict[str, Any]] = [
    {"prompt": "Hello\u2028there", "output_tokens": 4},
    {"text": "Hi", "output_tokens": 5},
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "So?"}]},
]
TAKEN = [
    {"prompt": "Hello\u2028there", "output_tokens": 4},
    {"prompt": "Hi", "output_tokens": 5},
    {**OWN[2], "output_tokens": 8},
]


def test_a_file_may_be_of_lines_a_list_packed_or_parquet(tmp_path: Path) -> None:
    listed = json.dumps(OWN, indent=1).encode()
    packed = gzip.compress(lines(*OWN))
    assert rows(tmp_path, lines(*OWN), LONG) == TAKEN
    assert rows(tmp_path, b"\xef\xbb\xbf" + lines(*OWN), LONG) == TAKEN
    assert rows(tmp_path, listed, LONG, "own.json") == TAKEN
    assert rows(tmp_path, packed, LONG, "own.jsonl.gz") == TAKEN
    assert rows(tmp_path, packed, LONG, "named-otherwise") == TAKEN
    assert rows(tmp_path, parquet(tmp_path, OWN), LONG, "own.parquet") == TAKEN


TRACE = [
    {"timestamp": 0, "input_length": 20, "output_length": 5, "hash_ids": [1, 2, 3]},
    {"timestamp": 90, "input_length": 24, "output_length": 5, "hash_ids": [1, 2, 4]},
]


def test_a_packed_file_gives_the_prompts_of_the_plain_one(tmp_path: Path) -> None:
    plain = rows(tmp_path, lines(*TRACE), MOONCAKE)
    assert rows(tmp_path, gzip.compress(lines(*TRACE)), MOONCAKE, "own.gz") == plain


CUT = gzip.compress(lines(*OWN) * 100)[:-20]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("own.jsonl", b"", "own.jsonl: empty; expected"),
        ("own.jsonl", b" \n\n", "own.jsonl: empty; expected"),
        ("own.jsonl", b"[]", "own.jsonl: empty; expected"),
        ("own.gz", gzip.compress(b"", mtime=0), "own.gz: empty; expected"),
        ("own.jsonl", '{"text": "é"}'.encode("latin-1"), "own.jsonl: line 1: not text in UTF-8"),
        ("own.jsonl", '{"text": "é"}'.encode("utf-16"), "own.jsonl: line 1: not text in UTF-8"),
        ("own.gz", CUT, "own.gz: not a whole file of gzip: "),
        ("own.gz", b'{"text": "a"}', "own.gz: not a whole file of gzip: "),
        ("own.gz", CUT[:40] + b"\0" * 99, "own.gz: not a whole file of gzip: "),
        ("own.parquet", b"", "own.parquet: not a whole Parquet file: "),
        ("own.parquet", b"PAR1 and no more", "own.parquet: not a whole Parquet file: "),
        ("own.parquet", b'{"text": "a"}', "own.parquet: not a whole Parquet file: "),
        ("own.csv", b"version https://git-lfs.github.com/spec/v1\n", "own.csv: a pointer of Git"),
        ("own.jsonl", b'[{"text": "a"},', "own.jsonl: line 1: not JSON"),
        ("own.jsonl", b'[{"text": "a"}, {"txt": "a"}]', "own.jsonl: record 2: txt: unknown field"),
        ("own.jsonl", b"[" * 100_000, "own.jsonl: not JSON: "),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_one_line(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    assert refused(tmp_path, content, LONG, name).startswith(message)


def test_a_row_of_parquet_is_named_by_its_number_and_column(tmp_path: Path) -> None:
    content = parquet(tmp_path, [{"prompt": "a", "n": None}, {"prompt": "b", "n": 1}])
    assert refused(tmp_path, content, LONG, "own.parquet").startswith(
        "own.parquet: record 2: n: unknown field"
    )
    content = parquet(tmp_path, [{"Timestamp": 1.0, "Response tokens": 3}])
    assert refused(tmp_path, content, BURST, "own.parquet").startswith(
        "own.parquet: record 1: Request tokens: missing; expected the columns Timestamp,"
    )


def test_a_recorded_answer_is_the_length_where_nothing_else_says_one(tmp_path: Path) -> None:
    user, model = {"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}
    chat, turns = {"messages": [user, model]}, {"turns": [{"text": "Why?", "answer": "So."}]}
    answered = {"answer": "So.", "output_text": "So."}
    assert rows(tmp_path, lines(chat, turns), FILE) == [
        {"messages": [user], **answered},
        {"turns": [{"prompt": "Why?", **answered}]},
    ]
    assert rows(tmp_path, lines(chat), LONG) == [
        {"messages": [user], "answer": "So.", "output_tokens": 8}
    ]


def test_what_a_turn_waits_for_and_is_reaches_the_dataset(tmp_path: Path) -> None:
    turns = [
        {"prompt": "Plan", "output_tokens": 4, "class": "planner"},
        {"prompt": "Search", "output_tokens": 4, "after": [0], "delay_s": 1.5},
        {"prompt": "Read", "output_tokens": 4, "after": [0]},
        {"prompt": "Sum up", "output_tokens": 4, "after": [1, 2], "delay_s": None},
    ]
    (row,) = rows(tmp_path, lines({"turns": turns}), FILE)
    assert row["turns"] == [*turns[:3], {"prompt": "Sum up", "output_tokens": 4, "after": [1, 2]}]


QUESTION = {"question_id": 81, "category": "writing", "turns": ["Write.", "Again."]}


def test_questions_have_their_category_as_their_class(tmp_path: Path) -> None:
    content = lines(QUESTION, QUESTION | {"reference": ["", "x"], "turns": ["Add."]})
    first, second = rows(tmp_path, content, QUESTIONS)
    assert first == {"prompt": "Write.", "class": "writing", "output_tokens": 8}
    assert second["prompt"] == "Add."
    both = rows(tmp_path, content, QUESTIONS | {"turns": 2, "requests": 1})
    assert [turn["prompt"] for turn in both[0]["turns"]] == ["Write.", "Again."]


HEADER = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
BURSTS = (
    f"{HEADER}5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,9,0,9,API log\n"
    "45.5,GPT-4,8,231,239,API log\n"
)


def test_a_burst_is_sent_when_it_was_and_failures_are_left_out(tmp_path: Path) -> None:
    taken = rows(tmp_path, BURSTS.encode(), BURST | {"vocabulary": 50})
    assert [(len(row["prompt"]), row["output_tokens"]) for row in taken] == [(472, 18), (8, 231)]
    assert [row["arrival_s"] for row in taken] == [0, 40.5]
    assert taken[0]["prompt"][:8] != taken[1]["prompt"]
    assert len(rows(tmp_path, BURSTS.encode(), BURST | {"model": "GPT-4"})) == 1


SESSION = [
    {"session_id": "a", "timestamp": 0, "input_length": 20, "output_length": 5, "hash_ids": [1, 2]},
    {"session_id": "b", "timestamp": 1000, "input_length": 16, "output_length": 5, "group_id": 4},
    {"session_id": "a", "delay": 2500, "input_length": 9, "output_length": 6, "hash_ids": [9, 10]},
    {"session_id": "a", "input_length": 3, "output_length": 7},
]


def test_a_session_of_a_trace_is_a_conversation_whose_prompts_grow(tmp_path: Path) -> None:
    first, other = rows(tmp_path, lines(*SESSION), MOONCAKE)
    begun, later, last = first["turns"]
    assert [len(turn["prompt"]) for turn in first["turns"]] == [20, 20 + 5 + 9, 34 + 6 + 3]
    assert later["prompt"][:20] == begun["prompt"]
    assert last["prompt"][:34] == later["prompt"]
    assert (later["delay_s"], last["delay_s"], "delay_s" in begun) == (2.5, 0, False)
    assert (first["arrival_s"], other["arrival_s"]) == (0, 1)


def user(*said: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text} for text in said]


DAG: list[dict[str, Any]] = [
    {
        "session_id": "root",
        "turns": [
            {
                "model": "m",
                "messages": [{"role": "system", "content": "Be brief."}, *user("Plan.")],
                "max_tokens": 5,
                "spawns": ["search", {"children": ["read"], "join_at": 2}],
            },
            {"messages": user("Found?"), "delay": 1500},
            {"messages": user("Sum up."), "forks": ["critic"]},
        ],
    },
    {"session_id": "search", "turns": [{"messages": user("Search.")}, {"messages": user("More.")}]},
    {"session_id": "read", "turns": [{"messages": user("Read.")}]},
    {"session_id": "critic", "turns": [{"messages": user("Weak?", "Where?")}]},
    {"session_id": "alone", "turns": [{"messages": user("Hi.")}]},
]


def test_sub_agents_run_beside_the_turn_that_began_them_and_joins_wait(tmp_path: Path) -> None:
    tree, alone = rows(tmp_path, lines(*DAG), AGENTS)
    length = {"output_tokens": 8}
    assert tree["turns"] == [
        {"messages": DAG[0]["turns"][0]["messages"], "output_tokens": 5},
        # Histories of their own: whole chats, after the turn that began them.
        {"messages": user("Search."), **length},
        {"prompt": "More.", **length},
        {"messages": user("Read."), "after": [0], **length},
        {"prompt": "Found?", "after": [0, 2], "delay_s": 1.5, **length},
        {"prompt": "Sum up.", "after": [4, 3], **length},
        {"prompt": "Weak?\n\nWhere?", **length},
    ]
    assert alone == {"turns": [{"prompt": "Hi.", **length}]}


def test_chats_of_a_session_follow_each_other(tmp_path: Path) -> None:
    chats = [
        {"session_id": "c", "messages": user("One."), "timestamp": 3000, "output_length": 3},
        {"session_id": "d", "messages": user("Else."), "timestamp": 4000},
        {"session_id": "c", "messages": user("One.", "Two."), "delay": 250, "output_length": 3},
    ]
    assert rows(tmp_path, lines(*chats), AGENTS) == [
        {
            "turns": [
                {"prompt": "One.", "output_tokens": 3},
                {"messages": user("One.", "Two."), "output_tokens": 3, "delay_s": 0.25},
            ],
            "arrival_s": 3,
        },
        {"turns": [{"prompt": "Else.", "output_tokens": 8}], "arrival_s": 4},
    ]


def node(id: str, *parents: tuple[str, str], **settings: float) -> dict[str, Any]:
    return {
        "node_id": id,
        "parents": [{"parent_node_id": name, "history_context": how} for name, how in parents],
        "columns": {"text_column": [f"Do {id}."], "output_tokens_count_column": [4]},
        "settings": settings or None,
    }


NODES = [
    node("plan", relative_timestamp=7.0, requeue_delay=0.5, trace_duration=2.0),
    node("join", ("work", "last"), ("plan", "full")),
    node("work", ("plan", "new")),
]


@pytest.mark.parametrize("is_text", [True, False])
def test_a_graph_stands_in_the_order_in_which_its_turns_can_be_sent(
    is_text: bool, tmp_path: Path
) -> None:
    graph: Any = {"graph_id": "g", "turns": NODES}
    (row,) = rows(
        tmp_path, lines({"conversation_turns": json.dumps(graph) if is_text else graph}), AGENTS
    )
    assert row == {
        "turns": [
            {"prompt": "Do plan.", "output_tokens": 4},
            {"messages": user("Do work."), "output_tokens": 4, "delay_s": 0.5},
            {"prompt": "Do join.", "output_tokens": 4, "after": [0, 1], "delay_s": 0.5},
        ],
        "arrival_s": 7.0,
    }


def changed(record: dict[str, Any], **turn: Any) -> dict[str, Any]:
    first, *others = record["turns"]
    return {**record, "turns": [{**first, **turn}, *others]}


def graph(*nodes: dict[str, Any]) -> dict[str, Any]:
    return {"conversation_turns": {"turns": nodes}}


HOSTILE: list[tuple[dict[str, Any], Any, str]] = [
    (QUESTIONS, {**QUESTION, "turns": []}, r"turns: expected .*, not \[\]"),
    (QUESTIONS, {**QUESTION, "turns": [1]}, "turns.0: expected a valid string, not 1"),
    (QUESTIONS, {**QUESTION, "choices": []}, "choices: unknown field"),
    (QUESTIONS, {"turns": ["Hi"]}, "question_id: missing"),
    (QUESTIONS, {**QUESTION, "category": "a/b"}, "category: expected .*, not a/b"),
    (SHAREGPT, 5, r"expected {\"conversations\": .*, not 5"),
    (SHAREGPT, {"conversations": "Hi"}, "conversations: expected a list of messages, not Hi"),
    (SHAREGPT, {"messages": ["Hi"]}, "messages.0: expected a message with from and value"),
    (SHAREGPT, {"messages": [{"content": "Hi"}]}, "messages.0: expected a message with"),
    (SHAREGPT, {"messages": [{"role": ["user"], "content": "Hi"}]}, "messages.0: expected a"),
    (MOONCAKE, {**TRACE[0], "timestamp": 10**400}, "timestamp: expected"),
    (MOONCAKE, {**SESSION[2], "session_id": "new"}, "timestamp: missing"),
    (MOONCAKE, {**SESSION[0], "delay": -1}, "delay: expected greater than or equal to 0, not -1"),
    (MOONCAKE, {**TRACE[0], "delay": 5}, "delay: expected none, .* not 5"),
    (MOONCAKE, {**TRACE[0], "messages": []}, "messages: unknown field"),
    (AGENTS, {"session_id": "s"}, "turns: missing; expected AIPerf"),
    (AGENTS, {"session_id": "s", "turns": []}, r"turns: expected AIPerf.*, not \[\]"),
    (AGENTS, {"session_id": "s", "turns": [5, None]}, "turns.0: expected a valid dictionary, not"),
    (AGENTS, {"session_id": "s", "turns": 5}, "turns: expected a valid list, not 5"),
    (AGENTS, {**DAG[4], "orchestrator": True}, "orchestrator: unknown field"),
    (AGENTS, changed(DAG[4], extra={"top_k": 1}), "turns.0.extra: unknown field"),
    (AGENTS, changed(DAG[4], max_tokens=True), "turns.0.max_tokens: expected a valid integer"),
    (AGENTS, changed(DAG[4], forks=["no"]), "turns.0.forks: expected a session_id .*, not no"),
    (AGENTS, changed(DAG[4], spawns=["alone"]), "session_id: expected a session that does not"),
    (AGENTS, changed(DAG[4], messages=[]), r"turns.0.messages: expected .*, not \[\]"),
    (AGENTS, changed(DAG[1], forks=["search"]), "session_id: expected a session that does not"),
    (AGENTS, {**DAG[4], "turns": [*DAG[4]["turns"], DAG[0]["turns"][0]]},
     "turns.1.messages: expected texts of the user alone, .*system"),
    (AGENTS, {"session_id": "s", "messages": user("a"), "tools": []}, "tools: unknown field"),
    (AGENTS, {"session_id": "s", "messages": user("a"), "message_mode": "delta"},
     "message_mode: expected 'history', not delta"),
    (AGENTS, {"session_id": "good", "messages": user("a"), "timestamp": 4},
     "timestamp: expected a delay"),
    (AGENTS, graph(node("a"), node("b", ("a", "full"), relative_timestamp=1)),
     ".*b.relative_timestamp: expected none"),
    (AGENTS, graph(node("a"), node("b", ("a", "full")) | {"columns": {"text_column": ["b"],
     "prefix_column": ["c"]}}), ".*b.columns: expected texts of the user alone.*system"),
    (AGENTS, {"conversation_turns": "{"}, "conversation_turns: expected an object"),
    (AGENTS, {"conversation_turns": "[" * 99_999}, "conversation_turns: expected an object"),
    (AGENTS, graph(node("a"), node("a")), "conversation_turns.turns.node_id: expected another"),
    (AGENTS, graph(node("a", ("b", "full"))), "conversation_turns.parent_node_id: expected a node"),
    (AGENTS, graph(node("a", ("b", "full")), node("b", ("a", "full"))), ".*expected no cycle"),
    (AGENTS, graph(node("a"), node("b", ("a", "last"))), ".*b.history_context: expected full"),
    (AGENTS, graph(node("a") | {"columns": {"image_column": []}}), ".*image_column: unknown field"),
    (AGENTS, graph(node("a") | {"columns": {}}), "conversation_turns.a.columns: expected one"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "record", "message"), HOSTILE)
def test_a_record_of_another_form_is_named_with_its_field(
    spec: dict[str, Any], record: Any, message: str, tmp_path: Path
) -> None:
    good = {
        "questions": QUESTION,
        "mooncake": TRACE[0],
        "agents": {"session_id": "good", "messages": user("a")},
    }
    first = good.get(spec["kind"], {"conversations": []})
    line = refused(tmp_path, lines(first, record), spec)
    assert re.match(rf"own\.jsonl: line 2: {message}", line), line


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("soon,ChatGPT,1,1,2,x", "line 2: Timestamp: expected a valid number, not soon"),
        ("1,ChatGPT,1.5,1,2,x", "line 2: Request tokens: expected a valid integer, not 1.5"),
        ("1,ChatGPT,0,1,2,x", "line 2: Request tokens: expected greater than or equal to 1"),
        ("1,ChatGPT,1,-1,2,x", "line 2: Response tokens: expected greater than or equal to 0"),
        ("1,ChatGPT", "line 2: Request tokens: expected"),
        ("1,ChatGPT,1,1,2,x,y", "line 2: more than the columns: unknown field"),
        ("5,ChatGPT,1,1,2,x\n4,ChatGPT,1,1,2,x", "line 3: expected a timestamp of at least 5"),
        ("5,ChatGPT,1,0,2,x", "empty; expected the columns"),
    ],
)
def test_a_row_of_a_burst_that_cannot_be_sent_is_named_with_its_column(
    row: str, message: str, tmp_path: Path
) -> None:
    line = refused(tmp_path, (HEADER + row + "\n").encode(), BURST)
    assert line.startswith(f"own.jsonl: {message}"), line


def test_a_column_that_is_not_known_is_named(tmp_path: Path) -> None:
    line = refused(tmp_path, b"Timestamp,Request tokens,Response tokens,Price\n1,1,1,1\n", BURST)
    assert line.startswith("own.jsonl: line 2: Price: unknown field"), line


def test_two_models_or_two_sessions_of_a_name_in_a_trace_are_refused(tmp_path: Path) -> None:
    other = {"session_id": "o", "turns": [{"messages": user("Hi."), "model": "n"}]}
    assert refused(tmp_path, lines(*DAG, other), AGENTS).startswith(
        "own.jsonl: line 6: turns.model: expected m, as before"
    )
    assert refused(tmp_path, lines(DAG[4], DAG[4]), AGENTS).startswith(
        "own.jsonl: line 2: session_id: expected another in each record"
    )


def test_sub_agents_that_begin_each_other_without_end_are_refused(tmp_path: Path) -> None:
    loop = [
        {"session_id": "root", "turns": [{"messages": user("a"), "spawns": ["x"]}]},
        {"session_id": "x", "turns": [{"messages": user("a"), "spawns": ["y", "y"]}]},
        {"session_id": "y", "turns": [{"messages": user("a"), "spawns": ["x"]}]},
    ]
    assert "turns.0.spawns: expected no cycle" in refused(tmp_path, lines(*loop), AGENTS)
    bomb = [
        {"session_id": str(i), "turns": [{"messages": user("a"), "spawns": [str(i + 1)] * 2}]}
        for i in range(40)
    ]
    last = {"session_id": "40", "turns": [{"messages": user("a")}]}
    assert "more than 10,000 turns" in refused(tmp_path, lines(*bomb, last), AGENTS)
