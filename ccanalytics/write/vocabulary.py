"""The words of the transcript format itself: they say nothing about anybody and stay when transcripts are redacted."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


KEYS = words("""
activeForm addedBlocks addedLines addedNames addedTypes additionalWorkingDirectories advisorModel agentColor agentId
agentName agentSetting agentType agentTypes aiTitle allUuids anchorUuid annotations answers apiBlockIndex apiError
apiErrorStatus apiErrorType appliedLimit appliedOffset args armed artifactCount atis attachment attachments
attributionAgent attributionMcpServer attributionMcpTool attributionPlugin attributionSkill autoModeConsentFlow
backgroundTaskId backgroundedByUser backup backupFileName backupTime base base64 bashFirst bashFirstSteer blocks
branch bridgeSessionId bufferTokens builtInPluginTypes builtInTypes bypass bytes cacheControl
cacheCreationEphemeral1hInputTokens cacheCreationEphemeral5mInputTokens cacheCreationInputTokens
cacheReadInputTokens cache_control cache_creation cache_creation_input_tokens cache_read_input_tokens caller
canContinueAgent canReadOutputFile category cause citations claudeContribution clearedAttachmentUUIDs code codeText
collapseId command commandMode commandName commandRun commit compactMetadata compactedToolIds connection container
content contentHash contentReplacement contents context contextLength contextRendering context_management
continuedInSessionId costUSD cumulativeDroppedTokens customTitle cwd dangerouslyDisableSandbox data date decision
defer_loading description diagnostics digests dimensions disabled display displayPath duration durationMs
durationSeconds echoWireToolInputs edits effort elapsedTimeMs elapsedTimeSeconds end_line enteredExisting entries
entrypoint enveloped ephemeral_1h_input_tokens ephemeral_5m_input_tokens errno error errorDetails errorStatus
exitCode explicit failedHookErrorIndexes failedMcpServers fallbackModel fallback_credit file fileStates file_path
filePath filename filenames finishExposedWork finished firstArchivedUuid firstPrompt fileMtime forkedFrom formatted
from fullOutput fullPath gitBranch gitDiff gitOperation gitStatus glob hasOutput hasUnknownModelCost hash headUuid
height hookAdditionalContext hookBased hookCount hookErrors hookEvent hookInfos hookName httpStatus id identity
imagePasteIds inference_geo inlineTools input inputTokens input_schema input_tokens interruptedByShutdown
interruptedMessageId interrupted isAbortedMidStream isAgent isApiErrorMessage isAsync isBuiltIn isCompactSummary
isGitRepo isImage isInitial isMeta isNetworkDown isReplay isSSLError isSidechain isSnapshotUpdate isSynthetic
isVisibleInTranscriptOnly isWorktree is_error itemCount iterations keep keptReminders kind knowledgeCutoff
lastArchivedUuid lastPrompt lastSequenceNum lastSpawnTokens launchedWithDefaults leafUuid level limit line lines
linesAdded linesRemoved logicalParentUuid madeBy managedCommit managedPr marketingName matches max maxRetries
maxThinkingTokens max_results mcpMeta media_type message messageCount messageId messageUuid messages
microcompactMetadata mode model modelId modelNotNamed modelUsage modelsUsed mtime multiSelect name names
needsAuthMcpServers newLines newStart newString new_string newTodos noOutputExpected noResponse normalizedMessages
notebook_path numFiles numLines numMatches offset oldLines oldStart oldString old_string oldTodos operation options
origin originalBranch originalCwd originalFile originalHeadCommit originalModel originalPath originalSize osVersion
outputFile outputStyle outputTokens output_config output_mode output_tokens output_tokens_details parentAgentId
parentLastUuid parentSessionId parentToolUseID parentUuid pastedContents path pattern patterns
pendingBackgroundAgentCount pendingMcpServers perTurnEffort permissionDecision permissionMode persistedOutputPath
persistedOutputSize pickedEffortModel plan planContent planWasEdited platform postTokens pr prNumber prRepository
prUrl preCompactDiscoveredTools preCompactOrganizationsCoverStart preEnterOriginalCwd preTokens preservedMessages
preservedSegment preventedContinuation priority producer progress project projectPath prompt promptCacheRequested
promptCount promptId promptIndex promptSource promptText push query querySource questions queueSkipAttachments
rateLimits rawOutputPath readdedNames realParentDir reason reasonType relocatedCwd reminderFold removedNames
removedTypes removedUuids rendered renderedBesideToolResult renderedRole replaceAll replace_all replacement
replacements requestDigest requestId requestNonInteractive requestRef requestSessionId requestShape requestedModel
resolvedModel response result resultCount results resume resumedAgentId retrieval_status retryAttempt retryInMs
returnCodeInterpretation rewound risk role rowSource runId run_in_background runningTurnPrompt sandbox sandboxed
savedCopyFraming scriptPath searchCount sendUserFileHint sentAtMs serverName server_tool_use service_tier sessionId
sessionKind sessionUrl session_id shape shapeHash shell showConcurrencyNote side sidechainParentUuid signature
skillCount slug snapshot snapshotMessageId snipMetadata source sourceToolAssistantUUID sourceToolUseID source_uuid
spawnDepth speed staged stagedAt startLine startTime startUuid start_line status stderr stdout steerOnly stopReason
stop_details stop_reason stop_sequence streamCutCause streamCutError structuredContent structuredPatch subagent_type
subject subtype success summarizeMetadata summary summaryContent summaryUuid supersedes surface systemPrompt
systemTurns tag tail tailUuid task taskDescription taskId taskType task_id team_name teamName text thinking
thinkingDisplay thinkingDurationMs thinkingMetadata thinkingTokens thinking_tokens thread timeSavedMs timedOut
timedOutAfterMs timeout timeoutMs timestamp to todos tokensSaved toolCallCount toolChangeHeader toolDenialKind
toolEndsTurn toolInputStreamMs toolName toolStats toolUseID toolUseId toolUseIds toolUseResult tool_name tool_use_id
tool_use_ids tools toolsUsed totalAPIDuration totalAPIDurationWithoutRetries totalBytes totalCostUSD totalDuration
totalDurationMs totalFiles totalLines totalLinesAdded totalLinesRemoved totalMatches totalTokens totalToolDuration
totalToolUseCount total_deferred_tools trackedFileBackups trackingPath transcriptDir trigger triggers truncated
turnCompanion turnIndex turnOrigin turnPosition type url urls usage userModified userType user_id uuid uuids value
verificationNudgeNeeded version wasInterrupted webSearchRequests web_fetch_requests web_search_requests width
wireHiddenNames workflowName workingDirectory worktreeBranch worktreeName worktreePath worktreeSession workspace
zone n_todos command_head url_host n_refs persisted_path agent_id result_kind hook_duration_ms n_hook_errors
editedNotebook cell_id cell_type edit_mode edit new_source allowed_domains blocked_domains
""")

WORDS = words("""
user assistant system attachment progress summary custom-title ai-title last-prompt tag agent-name agent-color
agent-setting mode permission-mode pr-link worktree-state file-history-snapshot file-history-delta
attribution-snapshot content-replacement marble-origami-commit marble-origami-snapshot marble-origami-reset
queue-operation speculation-accept task-summary relocated bridge-session fork-context-ref cost-state continued-in
ended-by-model observer-ref history-suppression isolation-latch atis-latch frame-link artifact-comment-monitor
artifact-autoreact-ledger tombstone agent_metadata saved_hook_context api-request api-request-blob api-request-shape
tools-used snip result message text thinking redacted_thinking tool_use tool_result image document tool_reference
server_tool_use advisor_tool_result web_search_tool_result fallback advisor_message fallback_message compaction
base64 file string list local_command turn_duration api_error stop_hook_summary compact_boundary
microcompact_boundary snip_boundary bridge_status away_summary scheduled_task_fire informational permission_retry
agents_killed memory_saved file_snapshot api_metrics model_refusal_fallback model_refusal_no_fallback
post_turn_summary model_fallback environment model deferred_tools_delta agent_listing_delta skill_listing auto_mode
auto_mode_exit session_context remote_session_change prompt_snapshot output_style hook_success
hook_non_blocking_error hook_blocking_error hook_cancelled hook_additional_context hook_deferred_tool
hook_error_during_execution hook_permission_decision hook_stopped_continuation hook_system_message task_reminder
todo_reminder queued_command mcp_instructions_delta invoked_skills edited_text_file plan_mode plan_mode_exit
plan_mode_reentry plan_file_reference nested_memory relevant_memories command_permissions compact_file_reference
directory date_change date goal_status budget_usd max_turns_reached agent_mention structured_output task_status
hook_progress bash_progress mcp_progress agent_progress waiting_for_task query_update search_results_received
enqueue dequeue remove popAll manual auto overloaded info error none warning suggestion notice external ant cli
sdk-ts sdk-py sdk-cli claude-vscode claude-desktop default acceptEdits bypassPermissions dontAsk plan normal
coordinator end_turn max_tokens stop_sequence pause_turn refusal model_context_window_exceeded standard batch
priority fast us global not_available completed async_launched remote_launched teammate_spawned running failed
killed stopped pending in_progress cancelled deleted started connected low medium high xhigh tool-result
tool-results human channel task-notification session-task typed sdk queued local recorded harness accept reject deny
allow ask config hook rule other 5m 1h direct code_execution_20250825 general-purpose Explore Plan statusline-setup
output-style-setup workflow-subagent claude claude-code-guide create update rejected head tail before after linux
darwin win32 bash zsh PreToolUse PostToolUse UserPromptSubmit SessionStart SessionEnd Stop SubagentStop PreCompact
Notification server_error rate_limit authentication_failed connection_failed invalid_request stream_truncated
repl_main_thread background prompt task_notification local_agent local_bash Agent Task Bash BashOutput KillShell
KillBash Read Write Edit MultiEdit NotebookEdit NotebookRead Glob Grep LS TodoWrite TodoRead WebFetch WebSearch
ToolSearch TaskOutput TaskCreate TaskUpdate TaskList TaskGet TaskStop SendMessage Skill SlashCommand ExitPlanMode
EnterPlanMode AskUserQuestion EnterWorktree ExitWorktree Monitor CronCreate CronDelete CronList ScheduleWakeup
Artifact Workflow ListMcpResources ListMcpResourcesTool ReadMcpResource ReadMcpResourceTool StructuredOutput Brief
SendUserMessage TeamCreate TeamDelete web_search web_fetch code_execution advisor main master HEAD image/png
image/jpeg image/gif image/webp application/pdf text/plain /compact /clear /exit /help /model /cost /init /resume
/rename /rewind /context /config /mcp /agents /fork /export /login /logout /memory /review /status /tasks /todos
/usage /plan /permissions /hooks /doctor /bug /feedback /fast /effort /background /btw
""")

TAGS = words("""
command-name command-message command-args local-command-stdout local-command-stderr local-command-caveat bash-input
bash-stdout bash-stderr task-notification task-id tool-use-id output-file status summary result usage total_tokens
tool_uses duration_ms user-prompt-submit-hook session-start-hook system-reminder persisted-output teammate-message
tick worktree
""")

PHRASES = (
    "[Request interrupted by user for tool use]",
    "[Request interrupted by user]",
    "Caveat: The messages below were generated",
    "No response requested.",
    "(no content)",
    "Conversation compacted",
    "User rejected tool use",
    "Error: ",
    "InputValidationError",
    "This session is being continued",
)
"""Beginnings of texts that Claude Code itself writes and that say what kind of line it is."""
