"""Agent runs: found in every layout, linked by the best evidence, counted once."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import ccanalytics as cc
from tests.build import (
    DROP,
    Line,
    assistant,
    attachment,
    chain,
    meta,
    progress,
    text,
    tool_result,
    tool_use,
    uid,
    usage,
    user,
    write_agent,
    write_lines,
    write_session,
)
from tests.cases import case_dir

PROJECT = Path("projects", "-home-dev-app")


def launch(line: str, call: str, /, *, tool: str = "Agent", **given: object) -> Line:
    """An agent call; its input is what is given."""
    return tool_use(line, tool, {"description": "look", "prompt": f"do {call}", **given}, call=call)


def run_of(agent: str, *lines: Line, session: str = "s1", start: float = 10) -> list[Line]:
    lines = lines or (user(f"{agent}-u"), assistant(f"{agent}-a", usage=usage(output=11)))
    return chain(*lines, session=session, agent=agent, start=start)


def by_id(t: cc.Transcripts) -> dict[str | None, dict[str, object]]:
    return {row["agent_id"]: row for row in t.agents.to_dicts()}


def test_ag01_agents_are_read_in_both_layouts_and_make_the_total_with_the_main_thread(tmp_path: Path) -> None:
    write_session(tmp_path, chain(user("u1"), assistant("a1", usage=usage(output=100))))
    write_agent(tmp_path, "a1", run_of("a1"))
    write_agent(tmp_path, "b2", run_of("b2"), flat=True)
    t = cc.load(tmp_path)
    agents = by_id(t)
    assert {k: v["layout"] for k, v in agents.items()} == {None: "session", "a1": "subagents", "b2": "flat"}
    session = t.sessions.row(0, named=True)
    assert (session["main_output_tokens"], session["agents_output_tokens"], session["output_tokens"]) == (100, 22, 122)
    assert agents[None]["incl_output_tokens"] == 122
    assert session["n_agents"] == 2


def test_ag03_two_launches_of_one_name_stay_unlinked_and_are_counted(tmp_path: Path) -> None:
    calls = [launch(f"l{n}", f"t{n}", name=name) for n, name in enumerate(["scout", "scout", "guide"])]
    write_session(tmp_path, chain(user("u1"), *calls))
    for agent, name in (("x1", "scout"), ("x2", "scout"), ("x3", "guide")):
        write_agent(tmp_path, agent, run_of(agent), meta={"agentType": "helper", "name": name})
    t = cc.load(tmp_path)
    agents = by_id(t)
    assert [agents[a]["link_rule"] for a in ("x1", "x2", "x3")] == ["unlinked", "unlinked", "name"]
    assert agents["x3"]["tool_use_id"] == "toolu_t2"
    assert agents["x1"]["tool_use_id"] is None
    assert agents[None]["incl_output_tokens"] == sum(t.calls["output_tokens"])


def test_ag05_an_agent_woken_by_a_message_is_one_run(tmp_path: Path) -> None:
    write_session(
        tmp_path,
        chain(
            user("u1"),
            launch("l1", "t1"),
            tool_result("r1", "t1", toolUseResult={"status": "completed", "agentId": "a1"}),
            tool_use("l5", "SendMessage", {"to": "a1", "message": "go on"}, call="t5"),
            tool_result("r5", "t5", toolUseResult={"success": True, "resumedAgentId": "a1"}),
            step=100,
        ),
    )
    lines = user("x1"), assistant("x2", usage=usage(output=5)), user("x3", seconds=350), assistant("x4", seconds=351)
    write_agent(tmp_path, "a1", run_of("a1", *lines, start=110), meta={"agentType": "helper", "toolUseId": "toolu_t1"})
    agents = by_id(cc.load(tmp_path))
    run = agents["a1"]
    assert set(agents) == {None, "a1"}
    assert (run["tool_use_id"], run["resumed_by"], run["n_resumes"]) == ("toolu_t1", "toolu_t5", 1)
    assert (run["own_calls"], run["own_output_tokens"], run["n_turns"]) == (2, 10, 2)
    assert run["longest_idle_ms"] == 239_000
    tools = cc.load(tmp_path).tools
    assert tools["spawned_agent_id"].to_list() == ["a1", None]


@pytest.mark.parametrize("said", ["message", "resume", "last call in meta"])
def test_ag05_other_ways_to_wake_an_agent(tmp_path: Path, said: str) -> None:
    message = tool_use("l5", "SendMessage", {"to": "a1"}, call="t5")
    again = launch("l5", "t5", resume="a1") if said == "resume" else message
    write_session(tmp_path, chain(user("u1"), launch("l1", "t1"), again, step=100))
    told = {"agentType": "helper", "toolUseId": "toolu_t5" if said == "last call in meta" else "toolu_t1"}
    lines = user("x1", "do t1"), assistant("x2"), user("x3", seconds=250), assistant("x4", seconds=251)
    write_agent(tmp_path, "a1", run_of("a1", *lines, start=110), meta=told)
    run = by_id(cc.load(tmp_path))["a1"]
    if said == "last call in meta":
        assert run["link_rule"] == "meta"
    else:
        assert (run["tool_use_id"], run["resumed_by"], run["n_resumes"]) == ("toolu_t1", "toolu_t5", 1)


def test_ag06_agents_of_agents_make_a_tree_that_adds_each_once(tmp_path: Path) -> None:
    write_session(tmp_path, chain(user("u1"), launch("l1", "t1"), tool_result("r1", "t1")))
    write_agent(
        tmp_path,
        "a1",
        run_of("a1", user("x1"), launch("x2", "t2"), tool_result("x3", "t2")),
        meta={"toolUseId": "toolu_t1"},
    )
    told = {"toolUseId": "toolu_t2", "parentAgentId": "a1", "spawnDepth": 2}
    write_agent(tmp_path, "a2", run_of("a2", start=12), meta=told)
    t = cc.load(tmp_path)
    agents = by_id(t)
    places = [(agents[a]["depth"], agents[a]["parent_agent_id"]) for a in (None, "a1", "a2")]
    assert places == [(0, None), (1, None), (2, "a1")]
    assert agents["a1"]["incl_output_tokens"] == 5 + 11
    assert agents[None]["incl_output_tokens"] == t.calls["output_tokens"].sum() == t.sessions["output_tokens"].sum()
    assert [agents[a]["n_descendants"] for a in (None, "a1", "a2")] == [2, 1, 0]
    assert t.turns.select("turn_no", "n_agents", "output_tokens").rows() == [(1, 2, t.calls["output_tokens"].sum())]


def test_ag06_the_recorded_nested_agents(tmp_path: Path) -> None:
    agents = cc.load(case_dir("cost", "agents-nested") / "config").agents
    assert agents["depth"].sort().to_list() == [0, 1, 2, 2]
    assert agents["link_rule"].to_list().count("meta") == 3
    outer = agents.filter(pl.col("depth") == 1).row(0, named=True)
    assert set(agents.filter(pl.col("depth") == 2)["parent_agent_id"]) == {outer["agent_id"]}
    assert outer["incl_calls"] == agents.filter(pl.col("depth") > 0)["own_calls"].sum()


def test_ag06_runs_that_name_one_another_as_parents_hang_under_the_main_thread(tmp_path: Path) -> None:
    write_session(tmp_path, chain(user("u1"), assistant("m1")))
    for agent, parent in (("a1", "a2"), ("a2", "a1"), ("a3", "a3"), ("a4", "gone")):
        write_agent(tmp_path, agent, run_of(agent), meta={"parentAgentId": parent})
    t = cc.load(tmp_path)
    agents = by_id(t)
    assert {a: r["depth"] for a, r in agents.items()} == {None: 0, "a1": 1, "a2": 1, "a3": 1, "a4": 1}
    assert agents[None]["incl_output_tokens"] == t.calls["output_tokens"].sum()


def test_ag07_a_fork_agent_begins_with_its_directive(tmp_path: Path) -> None:
    story = user("u1", "the whole story"), assistant("m1"), user("u2"), assistant("m2"), user("u3")
    main = chain(*story, launch("l1", "t1"))
    write_session(tmp_path, main)
    copied = [
        {**line, "uuid": uid(f"c{n}"), "agentId": "f1", "isSidechain": True}
        | {"forkedFrom": {"sessionId": uid("s1"), "messageUuid": line["uuid"]}}
        for n, line in enumerate(main)
    ]
    answers = assistant("d2", usage=usage(output=7)), assistant("d3", usage=usage(output=8))
    own = run_of("f1", user("d1", "go"), *answers, start=60)
    write_agent(tmp_path, "f1", [*copied, *own], meta={"agentType": "fork", "toolUseId": "toolu_t1"})
    t = cc.load(tmp_path, content="full")
    run = by_id(t)["f1"]
    assert (run["kind"], run["prompt"], run["prompt_chars"]) == ("fork", "go", 2)
    assert run["started_at"] == t.entries.filter(pl.col("uuid") == uid("d1"))["timestamp"][0]
    assert (run["own_calls"], run["own_output_tokens"]) == (2, 15)
    assert (run["n_entries"], run["n_inherited_entries"]) == (3, 6)
    assert t.tools.height == 1
    assert t.turns.height == 3


def test_ag07_a_fork_agent_with_the_parents_own_lines(tmp_path: Path) -> None:
    main = chain(user("u1"), assistant("m1"), launch("l1", "t1"))
    write_session(tmp_path, main)
    copied = [{**line, "agentId": "f1", "isSidechain": True} for line in main]
    write_agent(tmp_path, "f1", [*copied, *run_of("f1", user("d1", "go"), assistant("d2"), start=60)])
    t = cc.load(tmp_path)
    run = by_id(t)["f1"]
    assert (run["kind"], run["n_inherited_entries"], run["own_calls"], run["prompt_chars"]) == ("fork", 3, 1, 2)
    assert t.tools.height == 1


def test_ag08_a_file_in_the_agents_folder_is_one_whatever_its_name(tmp_path: Path) -> None:
    write_session(tmp_path, chain(user("u1"), assistant("m1")))
    folder = tmp_path / PROJECT / uid("s1") / "subagents"
    write_lines(folder / "x9f3.jsonl", run_of("x9f3"))
    write_lines(folder / "other-name.jsonl", run_of("in-rows"))
    assert set(by_id(cc.load(tmp_path))) == {None, "x9f3", "in-rows"}


def test_ag09_agents_beside_sessions_are_no_sessions_of_a_person(tmp_path: Path) -> None:
    write_session(tmp_path, chain(user("u1"), assistant("m1")))
    lone = [meta("mode", mode="normal", sessionId=uid("u-2")), *run_of("DROPPED", session="u-2")]
    for line in lone[1:]:
        del line["agentId"]
    write_session(tmp_path, lone, session="u-2")
    member = chain(user("w1"), assistant("w2"), session="u-3")
    write_session(tmp_path, [{**line, "teamName": "crew", "agentName": "ann"} for line in member], session="u-3")
    t = cc.load(tmp_path)
    kinds = dict(t.sessions.select("session_id", pl.col("kind").cast(pl.String)).iter_rows())
    assert kinds == {uid("s1"): "session", uid("u-2"): "agent", uid("u-3"): "teammate"}
    runs = t.agents.filter(pl.col("kind") != "main").select("session_id", "agent_id", pl.col("kind").cast(pl.String))
    assert sorted(runs.rows()) == sorted([(uid("u-2"), uid("u-2"), "agent"), (uid("u-3"), "ann@crew", "teammate")])
    assert t.turns.filter(pl.col("turn_no") > 0)["session_id"].to_list() == [uid("s1")]


def test_ag10_name_type_and_description_come_from_the_call_when_there_is_no_meta(tmp_path: Path) -> None:
    call = launch("l1", "t1", name="hardener", subagent_type="reviewer", description="harden it")
    write_session(tmp_path, chain(user("u1"), call, tool_result("r1", "t1", toolUseResult={"agentId": "a1"})))
    write_agent(tmp_path, "a1", run_of("a1"))
    run = by_id(cc.load(tmp_path))["a1"]
    assert [run[k] for k in ("name", "agent_type", "description")] == ["hardener", "reviewer", "harden it"]


def test_ag11_an_agent_file_without_a_prompt_is_counted(tmp_path: Path) -> None:
    write_session(tmp_path, chain(user("u1"), assistant("m1")))
    write_agent(tmp_path, "a1", run_of("a1", assistant("x1", parentUuid=None), assistant("x2")), flat=True)
    run = by_id(cc.load(tmp_path, content="full"))["a1"]
    assert (run["prompt"], run["prompt_entry_id"], run["prompt_chars"]) == (None, None, None)
    assert (run["n_entries"], run["own_calls"], run["n_turns"]) == (2, 2, 0)


def test_ag12_the_agents_part_of_the_cost_stands_beside_the_main_part(tmp_path: Path) -> None:
    model = "claude-opus-5"  # 5 and 25 dollars a million
    write_session(tmp_path, chain(user("u1"), assistant("m1", model=model, usage=usage(input=2_480_000, output=0))))
    answer = assistant("x2", model=model, usage=usage(input=620_000, output=0))
    write_agent(tmp_path, "a1", run_of("a1", user("x1"), answer))
    session = cc.load(tmp_path).sessions.row(0, named=True)
    assert [session[k] for k in ("main_cost_usd", "agents_cost_usd", "cost_usd")] == [12.4, 3.1, 15.5]


def test_a_result_says_which_agent_a_call_started(tmp_path: Path) -> None:
    answer = {
        "status": "completed",
        "agentId": "a1",
        "totalTokens": 8395,
        "totalDurationMs": 5000,
        "totalToolUseCount": 2,
    }
    write_session(tmp_path, chain(user("u1"), launch("l1", "t1"), tool_result("r1", "t1", toolUseResult=answer)))
    write_agent(tmp_path, "a1", run_of("a1"))
    run = by_id(cc.load(tmp_path))["a1"]
    assert (run["link_rule"], run["tool_use_id"], run["status"]) == ("result", "toolu_t1", "completed")
    reported = [run[f"reported_{k}"] for k in ("total_tokens", "duration_ms", "tools")]
    assert reported == [8395, 5000, 2]
    assert run["own_output_tokens"] == 11


def test_the_words_of_a_result_can_name_the_agent(tmp_path: Path) -> None:
    words = [text("All done."), text("agentId: a1 (for resuming)")]
    write_session(tmp_path, chain(user("u1"), launch("l1", "t1"), tool_result("r1", "t1", words)))
    write_agent(tmp_path, "a1", run_of("a1"))
    assert by_id(cc.load(tmp_path))["a1"]["link_rule"] == "result_text"


def test_progress_lines_name_the_agent_of_a_call(tmp_path: Path) -> None:
    note = progress("p1", "agent_progress", {"agentId": "a1", "prompt": "do"}, call="t1")
    write_session(tmp_path, chain(user("u1"), launch("l1", "t1"), note))
    write_agent(tmp_path, "a1", run_of("a1"))
    run = by_id(cc.load(tmp_path))["a1"]
    assert (run["link_rule"], run["tool_use_id"]) == ("progress", "toolu_t1")


@pytest.mark.parametrize("how", ["queue", "user", "attachment"])
def test_notices_of_background_tasks_name_agent_and_call_and_how_it_went(tmp_path: Path, how: str) -> None:
    notice = (
        "<task-notification>\n<task-id>a1</task-id>\n<tool-use-id>toolu_t1</tool-use-id>\n<status>killed</status>\n"
        "</task-notification>"
    )
    note = {
        "queue": meta("queue-operation", operation="enqueue", content=notice),
        "user": user("n1", notice, origin={"kind": "task-notification"}),
        "attachment": attachment("n1", "queued_command", {"prompt": notice, "commandMode": "task-notification"}),
    }[how]
    call = launch("l1", "t1", run_in_background=True)
    write_session(tmp_path, chain(user("u1"), call, note))
    write_agent(tmp_path, "a1", run_of("a1"))
    t = cc.load(tmp_path)
    run = by_id(t)["a1"]
    assert (run["link_rule"], run["tool_use_id"], run["status"]) == ("notification", "toolu_t1", "killed")
    assert run["is_background"] is True
    assert t.turns.height == 1


def test_equal_words_link_each_run_to_its_own_call_in_their_order(tmp_path: Path) -> None:
    calls = [tool_use(f"l{n}", "Task", {"prompt": "same words"}, call=f"t{n}") for n in range(3)]
    write_session(tmp_path, chain(user("u1"), *calls))
    for n in range(3):
        lines = user(f"x{n}", "same words"), assistant(f"y{n}")
        write_agent(tmp_path, f"a{n}", run_of(f"a{n}", *lines, start=10 + n))
    agents = by_id(cc.load(tmp_path))
    assert [agents[f"a{n}"]["tool_use_id"] for n in range(3)] == ["toolu_t0", "toolu_t1", "toolu_t2"]
    assert {agents[f"a{n}"]["link_rule"] for n in range(3)} == {"prompt"}


def test_better_evidence_wins_over_weaker(tmp_path: Path) -> None:
    calls = launch("l1", "t1"), launch("l2", "t2")
    answer = tool_result("r1", "t1", toolUseResult={"agentId": "a1"})
    write_session(tmp_path, chain(user("u1"), *calls, answer))
    write_agent(tmp_path, "a1", run_of("a1", user("x1", "do t2"), assistant("x2")))
    run = by_id(cc.load(tmp_path))["a1"]
    assert (run["link_rule"], run["tool_use_id"]) == ("result", "toolu_t1")


def test_sidechains_inside_a_session_are_runs_with_ids_of_their_own(tmp_path: Path) -> None:
    main = chain(user("u1"), launch("l1", "t1", tool="Task"), launch("l2", "t2", tool="Task"))
    side = []
    for n in (1, 2):
        lines = user(f"x{n}", f"do t{n}", parent=None), assistant(f"y{n}", parent=f"x{n}", usage=usage(output=n))
        side += [{**line, "isSidechain": True} for line in chain(*lines, start=10)]
    write_session(tmp_path, [*main, *side])
    t = cc.load(tmp_path)
    agents = by_id(t)
    assert set(agents) == {None, f"inline-{uid('x1')}", f"inline-{uid('x2')}"}
    runs = [agents[f"inline-{uid(x)}"] for x in ("x1", "x2")]
    assert [(r["layout"], r["link_rule"], r["tool_use_id"], r["own_output_tokens"]) for r in runs] == [
        ("inline", "inline", "toolu_t1", 1),
        ("inline", "inline", "toolu_t2", 2),
    ]
    assert t.turns.height == 1
    assert cc.load(tmp_path).agents.equals(t.agents)


def test_a_workflow_is_linked_by_its_run(tmp_path: Path) -> None:
    call = tool_use("l1", "Workflow", {"name": "ship"}, call="t1")
    answer = tool_result("r1", "t1", toolUseResult={"status": "completed", "runId": "wf_1", "workflowName": "ship"})
    write_session(tmp_path, chain(user("u1"), call, answer))
    for agent in ("w1", "w2"):
        write_agent(tmp_path, agent, run_of(agent), meta={"agentType": "workflow-subagent"}, workflow="wf_1")
    folder = tmp_path / PROJECT / uid("s1") / "subagents" / "workflows" / "wf_1"
    write_lines(folder / "journal.jsonl", [{"type": "start"}])
    agents = by_id(cc.load(tmp_path))
    assert set(agents) == {None, "w1", "w2"}
    for agent in ("w1", "w2"):
        run = agents[agent]
        assert [run[k] for k in ("kind", "layout", "workflow_id", "link_rule", "tool_use_id")] == [
            "workflow", "workflow", "wf_1", "workflow", "toolu_t1",
        ]  # fmt: skip


def test_runs_of_the_program_itself_are_labelled(tmp_path: Path) -> None:
    write_session(tmp_path, chain(user("u1"), assistant("m1")))
    for agent in ("acompact-0a1b", "aprompt_suggestion-0a1b", "aside_question-0a1b"):
        write_agent(tmp_path, agent, run_of(agent))
    write_agent(tmp_path, "0ff", run_of("0ff", user("x1", "Warmup"), assistant("x2")), flat=True)
    runs = cc.load(tmp_path).agents.filter(pl.col("kind") == "internal")
    assert set(runs["internal_kind"]) == {"compact", "prompt_suggestion", "side_question", "warmup"}
    assert set(runs["link_rule"]) == {"internal"}


def test_what_cannot_be_linked_stays_under_its_session(tmp_path: Path) -> None:
    write_session(tmp_path, chain(user("u1"), assistant("m1")))
    write_agent(tmp_path, "a1", run_of("a1"))
    t = cc.load(tmp_path)
    run = by_id(t)["a1"]
    found = [run[k] for k in ("link_rule", "parent_agent_id", "depth", "session_id")]
    assert found == ["unlinked", None, 1, uid("s1")]
    assert t.turns.filter(pl.col("turn_no") == 1)["output_tokens"].to_list() == [5 + 11]


def test_an_agent_whose_file_is_gone_is_shown_with_what_was_reported(tmp_path: Path) -> None:
    answer = {"status": "completed", "agentId": "gone", "agentType": "helper", "totalTokens": 999}
    write_session(tmp_path, chain(user("u1"), launch("l1", "t1"), tool_result("r1", "t1", toolUseResult=answer)))
    t = cc.load(tmp_path)
    run = by_id(t)["gone"]
    assert [run[k] for k in ("layout", "link_rule", "agent_type", "reported_total_tokens", "status")] == [
        "none", "result", "helper", 999, "completed",
    ]  # fmt: skip
    assert (run["own_calls"], run["own_cost_usd"]) == (0, None)
    assert by_id(t)[None]["incl_output_tokens"] == 5


def test_an_agent_that_runs_elsewhere_has_the_id_of_its_task(tmp_path: Path) -> None:
    answer = {"status": "remote_launched", "taskId": "far", "sessionUrl": "https://x"}
    write_session(tmp_path, chain(user("u1"), launch("l1", "t1"), tool_result("r1", "t1", toolUseResult=answer)))
    run = by_id(cc.load(tmp_path))["far"]
    assert [run[k] for k in ("layout", "link_rule", "is_background")] == ["none", "result", True]


def test_a_fork_agent_that_points_at_its_parents_context(tmp_path: Path) -> None:
    write_session(tmp_path, chain(user("u1"), launch("l1", "t1")))
    pointer = meta(
        "fork-context-ref", agentId="f1", parentSessionId=uid("s1"), parentLastUuid=uid("u1"), contextLength=1
    )
    write_agent(tmp_path, "f1", [pointer, *run_of("f1")], meta={"toolUseId": "toolu_t1"})
    assert by_id(cc.load(tmp_path))["f1"]["kind"] == "fork"


def test_sidechains_repeated_by_a_fork_are_the_runs_of_the_first_session(tmp_path: Path) -> None:
    main = chain(user("u1"), launch("l1", "t1", tool="Task"))
    side = [{**x, "isSidechain": True} for x in chain(user("x1", "do t1"), assistant("y1"), start=5)]
    lines = [*main, *side, *chain(tool_result("r1", "t1"), assistant("m2"), start=9, parent="l1")]
    write_session(tmp_path, lines)
    more = chain(user("u3"), assistant("m3"), session="s2", start=60, parent="m2")
    write_session(tmp_path, [*({**line, "sessionId": uid("s2")} for line in lines), *more], session="s2")
    runs = cc.load(tmp_path).agents.filter(pl.col("kind") != "main")
    assert runs.select("session_id", "agent_id").rows() == [(uid("s1"), f"inline-{uid('x1')}")]


def test_how_a_run_ended_without_a_report(tmp_path: Path) -> None:
    calls = [launch(f"l{n}", f"t{n}", run_in_background=True) for n in range(4)]
    write_session(tmp_path, chain(user("u1"), *calls))
    ends = {
        "completed": [user("x0"), assistant("y0")],
        "running": [user("x1"), tool_use("y1", call="z1")],
        "killed": [user("x2"), tool_use("y2", call="z2"), user("i2", [text("[Request interrupted by user]")])],
        "failed": [user("x3"), assistant("y3", "API Error: 529", model="<synthetic>", isApiErrorMessage=True)],
    }
    for n, lines in enumerate(ends.values()):
        write_agent(tmp_path, f"a{n}", run_of(f"a{n}", *lines), meta={"toolUseId": f"toolu_t{n}"})
    agents = by_id(cc.load(tmp_path))
    assert [agents[f"a{n}"]["status"] for n in range(4)] == list(ends)


def test_team_members_know_their_team_and_who_leads_it(tmp_path: Path) -> None:
    lead = chain(user("u1"), tool_use("l1", "Agent", {"name": "ann", "team_name": "crew", "prompt": "x"}, call="t1"))
    write_session(tmp_path, lead)
    member = chain(user("w1", "<teammate-message>go</teammate-message>"), assistant("w2"), session="s2")
    write_session(tmp_path, [{**line, "teamName": "crew", "agentName": "ann"} for line in member], session="s2")
    other = chain(user("v1"), assistant("v2"), session="s3")
    write_session(tmp_path, [{**line, "teamName": "crew", "agentName": "bob"} for line in other], session="s3")
    config = {
        "name": "crew", "leadAgentId": "lead@crew", "leadSessionId": uid("s1"),
        "members": [
            {"agentId": "lead@crew", "name": "lead", "agentType": "team-lead"},
            {"agentId": "ann@crew", "name": "ann", "agentType": "reviewer", "model": "opus", "joinedAt": 1767323045000},
            {"agentId": "bob@crew", "name": "bob", "agentType": "tester"},
        ],
    }  # fmt: skip
    folder = tmp_path / "teams" / "crew"
    (folder / "inboxes").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    inbox = [{"text": "hi", "timestamp": "2026-01-02T03:04:05.000Z", "read": True}, {"text": "x"}]
    (folder / "inboxes" / "ann.json").write_text(json.dumps(inbox))
    t = cc.load(tmp_path)
    runs = {r["name"]: r for r in t.agents.filter(pl.col("kind") == "teammate").to_dicts()}
    assert {n: (r["link_rule"], r["parent_session_id"], r["agent_type"]) for n, r in runs.items()} == {
        "ann": ("team", uid("s1"), "reviewer"),
        "bob": ("team", uid("s1"), "tester"),
    }
    assert (runs["ann"]["tool_use_id"], runs["bob"]["tool_use_id"]) == ("toolu_t1", None)
    parents = dict(t.sessions.select("session_id", "parent_session_id").iter_rows())
    assert parents == {uid("s1"): None, uid("s2"): uid("s1"), uid("s3"): uid("s1")}
    members = t.team_members
    assert members["name"].to_list() == ["ann", "bob", "lead"]
    assert members["n_messages"].to_list() == [2, 0, 0]
    assert members["n_unread"].to_list() == [1, 0, 0]


def test_a_damaged_team_folder_is_no_error(tmp_path: Path) -> None:
    write_session(tmp_path, chain(user("u1"), assistant("m1")))
    for name, held in (("a", "{"), ("b", "[]"), ("c", '{"members": [1, {"name": "../x", "joinedAt": true}]}')):
        (tmp_path / "teams" / name).mkdir(parents=True)
        (tmp_path / "teams" / name / "config.json").write_text(held)
    assert cc.load(tmp_path).team_members["name"].to_list() == ["../x"]


def test_lines_without_ids_of_their_own_are_counted(tmp_path: Path) -> None:
    lines = chain(user("x1", uuid=DROP), assistant("x2", uuid=DROP), agent="a1")
    write_agent(tmp_path, "a1", lines)
    assert by_id(cc.load(tmp_path))["a1"]["n_entries"] == 2
