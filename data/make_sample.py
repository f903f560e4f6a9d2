"""Write the sample: a Claude Code config directory with two weeks of made-up work on two small projects.

    python data/make_sample.py [OUT]

Without ``OUT`` it is written to ``data/sample``. Same script, same bytes. The people, projects and texts are invented.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from story_recipes import background_worktree, import_recipes, schema_search, torn_end
from story_tides import chart_endpoint, fork_of_chart, nested_agents, old_version, rewind_and_denial, two_compactions
from transcript import Conversation, dumps, slug, write_lines

HERE = Path(__file__).resolve().parent

Transcript = tuple[Conversation, list[tuple[Conversation, dict[str, Any]]]]


def main(out: Path) -> None:
    """Write everything below ``out``."""
    if out.exists():
        shutil.rmtree(out)
    chart = chart_endpoint()
    stories: list[Transcript] = [
        old_version(),
        chart,
        import_recipes(),
        nested_agents(),
        two_compactions(),
        schema_search(),
        rewind_and_denial(),
        fork_of_chart(chart[0]),
        background_worktree(),
        torn_end(),
    ]
    for session, agents in stories:
        write_session(out, session, agents)
    write_history(out, [session for session, _ in stories])


def write_session(out: Path, session: Conversation, agents: list[tuple[Conversation, dict[str, Any]]]) -> None:
    """One session with its agents and moved-out tool results."""
    folder = out / "projects" / slug(session.cwd)
    write_lines(folder / f"{session.session}.jsonl", session.lines, session.torn)
    beside = folder / session.session
    for agent, meta in agents:
        path = beside / "subagents" / f"agent-{agent.agent}.jsonl"
        write_lines(path, agent.lines)
        path.with_suffix(".meta.json").write_text(dumps(meta), encoding="utf-8", newline="\n")
    for name, text in session.moved.items():
        (beside / "tool-results").mkdir(parents=True, exist_ok=True)
        (beside / "tool-results" / name).write_text(text, encoding="utf-8", newline="\n")


def write_history(out: Path, sessions: list[Conversation]) -> None:
    """``history.jsonl``: every prompt that was typed, in order of time."""
    rows = [
        {
            "display": prompt["display"],
            "pastedContents": {},
            "timestamp": round(prompt["at"].timestamp() * 1000),
            "project": session.cwd,
            "sessionId": session.session,
        }
        for session in sessions
        for prompt in session.prompts
    ]
    write_lines(out / "history.jsonl", sorted(rows, key=lambda row: row["timestamp"]))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "sample")
