"""The tables of money: ledger, calls, prices, and the columns of cost and reconciliation reports."""

from __future__ import annotations

from . import Column as C
from . import Table

ROLES = (
    "final",
    "partial",
    "repeat",
    "copy",
    "replay",
    "compact_copy",
    "progress",
    "advisor",
    "synthetic",
    "error",
)
RULES = (
    "largest_usage",
    "only_placeholders",
    "same_message",
    "rewritten_line",
    "other_file",
    "zeroed_copy",
    "side_agent_copy",
    "compaction_agent_copy",
    "progress_echo",
    "progress_only",
    "advisor_iteration",
    "synthetic_model",
    "api_error",
)
SOURCES = ("transcript", "progress", "advisor")

TOKENS = (
    C("input_tokens", "i64", "uncached input", "usage.input_tokens", "tokens"),
    C("output_tokens", "i64", "output, thinking included", "usage.output_tokens", "tokens"),
    C(
        "cache_creation_input_tokens",
        "i64",
        "cache writes: the total as written, or the sum of the split where the total is 0 or absent",
        "usage.cache_creation_input_tokens",
        "tokens",
    ),
    C("cache_read_input_tokens", "i64", "cache reads", "usage.cache_read_input_tokens", "tokens"),
    C("ephemeral_5m_input_tokens", "i64", "5-minute writes: the total less the 1-hour part", unit="tokens"),
    C("ephemeral_1h_input_tokens", "i64", "1-hour writes, at most the total", unit="tokens"),
)

LEDGER = Table(
    "ledger",
    "line that carries usage (and one more per advisor iteration of a kept line)",
    ("entry_id", "iteration_no"),
    (
        C("entry_id", "i64", "the line"),
        C("iteration_no", "i32", "0 for the line itself, 1 … for its advisor iterations"),
        C("file_id", "i32", "file the line is in"),
        C("line_no", "i32", "line in the file"),
        C("session_id", "str", "session of the file the line is in"),
        C("agent_id", "str", "agent of the file the line is in; null on the main thread"),
        C("call_id", "str", "call the line belongs to; null for synthetic and error lines"),
        C("message_id", "str", "API message id as written", "message.id"),
        C("request_id", "str", "API request id as written", "requestId"),
        C("model", "str", "model that answered, verbatim", "message.model"),
        C("timestamp", "ts", "when the line was written", "timestamp"),
        C("role", "str", "what the line is to its call", values=ROLES),
        C("is_kept", "bool", "the line stands for its call: summing kept lines gives the calls"),
        C("rule", "str", "the rule that decided", values=RULES),
        *TOKENS,
        C("web_search_requests", "i64", "billed searches", "usage.server_tool_use.web_search_requests", "requests"),
        C("cost_usd", "f64", "what the line would cost if it were a request of its own, at list prices", unit="USD"),
    ),
)

CALLS = Table(
    "calls",
    "API request, after deduplication over all files",
    ("call_id",),
    (
        C("call_id", "str", "message id, else request id, else uuid; <message_id>:advisor:<n> for an advisor iteration"),
        C("message_id", "str", "API message id", "message.id"),
        C("request_id", "str", "API request id", "requestId"),
        C("session_id", "str", "session that owns the call"),
        C("agent_id", "str", "agent that owns the call; null on the main thread"),
        C("file_id", "i32", "file of the owning line"),
        C("entry_id", "i64", "the owning line: first line of the call in the owning file"),
        C("first_at", "ts", "first time any of its lines was written", "timestamp", "UTC"),
        C("last_at", "ts", "last time a line of the owning file was written", "timestamp", "UTC"),
        C("model", "str", "model that answered, verbatim", "message.model"),
        C("requested_model", "str", "model that was asked for; null where the version does not write it", "requestedModel"),
        C("model_family", "str", "canonical name of the answering model; the id as written where it is unknown"),
        C("version", "str", "Claude Code version", "version"),
        C("speed", "str", "standard or fast", "usage.speed"),
        C("service_tier", "str", "standard, priority, batch …", "usage.service_tier"),
        C("inference_geo", "str", "us or empty", "usage.inference_geo"),
        *TOKENS,
        C("thinking_tokens", "i64", "part of output", "usage.output_tokens_details.thinking_tokens", "tokens"),
        C("web_search_requests", "i64", "billed searches", "usage.server_tool_use.web_search_requests", "requests"),
        C("web_fetch_requests", "i64", "fetches (free)", "usage.server_tool_use.web_fetch_requests", "requests"),
        C("context_tokens", "i64", "size of the prompt: input + cache writes + cache reads", unit="tokens"),
        C("total_tokens", "i64", "context_tokens + output_tokens", unit="tokens"),
        C("n_lines", "i32", "lines that carry the call, copies included"),
        C("n_files", "i32", "files they are in"),
        C("is_partial", "bool", "every line has a placeholder for the output: the cost is a lower bound"),
        C("is_superseded", "bool", "another model's answer took its place; it was charged nevertheless", "supersedes"),
        C("is_sidechain", "bool", "owned by an agent, not by the main thread"),
        C("source", "str", "where its usage was found", values=SOURCES),
        C("advisor_parent", "str", "call_id of the answer an advisor iteration belongs to"),
        C("stop_reason", "str", "why the answer ended; null when no line says", "message.stop_reason"),
        C("project", "str", "project of the owning file"),
        C("worktree", "str", "worktree of the owning file"),
        C("cwd", "str", "working directory on the owning line", "cwd"),
        C("git_branch", "str", "branch on the owning line", "gitBranch"),
        C("entrypoint", "str", "cli, sdk-py …", "entrypoint"),
        C("recorded_cost_usd", "f64", "cost that old versions wrote on the line; never used for cost_usd", "costUSD", "USD"),
        C("cost_usd", "f64", 'cost by policy "list"; null where the model has no price', unit="USD"),
    ),
    sort=("first_at", "call_id"),
)

_MTOK = "USD per million tokens"

PRICES = Table(
    "prices",
    "price card of a model in a span of time",
    ("card", "model", "valid_from", "cli_version"),
    (
        C("card", "str", "whose prices", values=("user", "list", "fetched", "claude-code")),
        C("model", "str", "canonical model name"),
        C("aliases", "str", "other names, comma-separated"),
        C("valid_from", "ts", "first moment the card applies; null for always"),
        C("valid_to", "ts", "first moment it no longer applies; null for open"),
        C("cli_version", "str", "claude-code cards: first version that charges this; null for list prices"),
        C("input_usd", "f64", "uncached input", unit=_MTOK),
        C("output_usd", "f64", "output", unit=_MTOK),
        C("cache_write_5m_usd", "f64", "5-minute cache writes", unit=_MTOK),
        C("cache_write_1h_usd", "f64", "1-hour cache writes", unit=_MTOK),
        C("cache_read_usd", "f64", "cache reads", unit=_MTOK),
        C("long_above_tokens", "i64", "prompts larger than this pay the long prices for the whole request", unit="tokens"),
        C("long_input_usd", "f64", "uncached input of a long prompt", unit=_MTOK),
        C("long_output_usd", "f64", "output of a long prompt", unit=_MTOK),
        C("long_cache_write_5m_usd", "f64", "5-minute writes of a long prompt", unit=_MTOK),
        C("long_cache_write_1h_usd", "f64", "1-hour writes of a long prompt", unit=_MTOK),
        C("long_cache_read_usd", "f64", "cache reads of a long prompt", unit=_MTOK),
        C("batch_factor", "f64", "factor on all token prices in the batch tier"),
        C("fast_factor", "f64", "factor on all token prices in fast mode"),
        C("us_factor", "f64", "factor on all token prices for US inference"),
        C("web_search_usd", "f64", "one web search", unit="USD"),
        C("context_window", "i64", "size of the context window", unit="tokens"),
        C("source", "str", "where the figures were read"),
        C("note", "str", "what to know about them"),
    ),
)

COST_PARTS = (
    C("cost_input_usd", "f64", "uncached input at the plain price", unit="USD"),
    C("cost_output_usd", "f64", "output at the plain price", unit="USD"),
    C("cost_cache_read_usd", "f64", "cache reads at the plain price", unit="USD"),
    C("cost_cache_write_5m_usd", "f64", "5-minute writes at the plain price", unit="USD"),
    C("cost_cache_write_1h_usd", "f64", "1-hour writes at the plain price", unit="USD"),
    C("cost_search_usd", "f64", "web searches", unit="USD"),
    C("cost_advisor_usd", "f64", "advisor iterations, whole", unit="USD"),
    C("cost_modifiers_usd", "f64", "what long prompts, fast mode, batch and US inference add or take", unit="USD"),
)
"""Columns of the parts of a cost; they sum to ``cost_usd``."""

COST_MEASURES = (
    *TOKENS,
    C("web_search_requests", "i64", "billed searches", unit="requests"),
    C("calls", "i64", "API requests"),
    C("partial_calls", "i64", "calls whose output is unknown (lower bounds)"),
    C("unpriced_calls", "i64", "calls whose model has no price; their cost is not in cost_usd"),
    C("cost_usd", "f64", "sum of the priced calls; null when none of them has a price", unit="USD"),
)
"""Columns of ``t.cost()`` after its keys."""

CAUSES = {
    "fork_trunks": "what the session it was forked from had spent, counted here again",
    "killed_runs": "runs that ended without writing their total: in the transcript, not in the record",
    "unrecorded_runs": "requests after the last record",
    "unknown_models": "models without a card, charged with another one than usual",
    "compaction_calls": "requests that summarised the conversation",
    "web_search_side_calls": "requests the WebSearch tool made",
    "prompt_hooks": "requests of hooks",
    "title_calls": "requests that named the session",
    "small_model_calls": "requests of old versions to a small model",
    "cut_streams": "answers cut off: their real output, or attempts that left no line",
    "partial_lines": "output that lines with a placeholder do not show",
    "rounding": "less than a billionth of the total",
    "unexplained": "what is left",
}
"""What can make the recorded cost differ from the transcript's; the amounts sum to the gap."""

REPORTS = {
    "reconciliation": Table(
        "reconciliation",
        "session: its cost as Claude Code recorded it beside that of its transcript",
        ("session_id",),
        (
            C("session_id", "str", "session"),
            C("project", "str", "project"),
            C("version", "str", "latest Claude Code version on its calls"),
            C("calls", "i64", "API requests it owns"),
            C("partial_calls", "i64", "those whose output is unknown"),
            C("recorded_in", "str", "where the recorded cost was found; null without one", values=("cost-state", ".claude.json")),
            C("recorded_cost_usd", "f64", "Claude Code's own total, the last one written", "totalCostUSD, lastCost", "USD"),
            C("transcript_cost_usd", "f64", 'calls it owns, by policy "claude-code"', unit="USD"),
            C("gap_usd", "f64", "recorded less transcript", unit="USD"),
            *(C(f"{cause}_usd", "f64", f"part of the gap: {meaning}", unit="USD") for cause, meaning in CAUSES.items()),
            C("is_shared_out", "bool", "more than one hidden cause: their parts are by estimated size, their sum is exact"),
            C("hidden_cost_usd", "f64", "spend no line shows, from the record; null without one", unit="USD"),
            C("hidden_lower_usd", "f64", "the same estimated from what the transcript tells of it, at the least", unit="USD"),
            C("hidden_upper_usd", "f64", "the same, at the most", unit="USD"),
            C("best_estimate_usd", "f64", "the larger of the record (less fork trunks) and the transcript", unit="USD"),
            C("list_cost_usd", "f64", 'calls it owns, by policy "list"', unit="USD"),
            C("line_recorded_cost_usd", "f64", "sum of the costs that old versions wrote on the lines", "costUSD", "USD"),
        ),
    ),
}
"""Tables that are computed on request and belong to no export."""
