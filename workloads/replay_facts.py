"""What is in a replay set, counted: what one wants to know before spending hours on it."""

from __future__ import annotations

from dataclasses import dataclass

from edge_runner.agents.conversation import Conversation
from edge_runner.workloads.commands import executables_of
from edge_runner.workloads.replay_data import ReplaySet


@dataclass(frozen=True, slots=True)
class ReplayFacts:
    """`replies`: client turns with a recorded reply, which `output_length: recorded` needs for
    all. `scorable`: those whose reply runs a known command. `delay_ns`: recorded tool delays in
    all. `largest_prompt_characters`: message text of the longest prompt (system, history, calls;
    not the tools' descriptions, which the model's template writes in its own way)."""

    sessions: int
    turns: int
    replies: int
    scorable: int
    delay_ns: int
    longest_session: str
    longest_session_turns: int
    largest_prompt_characters: int
    largest_prompt_session: str


def facts_of(replay: ReplaySet) -> ReplayFacts:
    sessions = replay.conversations
    replies = [turn.recorded for one in sessions for turn in one.turns if turn.recorded is not None]
    longest = max(sessions, key=lambda one: len(one.turns))
    largest = max(sessions, key=_last_prompt_characters)
    return ReplayFacts(
        sessions=len(sessions),
        turns=sum(len(one.turns) for one in sessions),
        replies=len(replies),
        scorable=sum(1 for reply in replies if executables_of(reply.tool_calls)),
        delay_ns=sum(turn.delay_ns for one in sessions for turn in one.turns),
        longest_session=longest.id,
        longest_session_turns=len(longest.turns),
        largest_prompt_characters=_last_prompt_characters(largest),
        largest_prompt_session=largest.id,
    )


def _last_prompt_characters(one: Conversation) -> int:
    """A conversation's last prompt is its largest: all of its text but the last reply."""
    reply = one.turns[-1].recorded
    if reply is None:
        return one.characters
    calls = sum(len(call.arguments) for call in reply.tool_calls)
    return one.characters - len(reply.text) - len(reply.reasoning) - calls
