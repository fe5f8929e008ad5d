"""Whether the counters of speculative decoding can be true: against each other, and the outputs.

A verified draft gives a request one output: a token of the target's, and those of the draft that
were accepted. The API server counts outputs where it times them, apart from the drafts. The chunks
at the client cannot: a front end that is behind puts several outputs into one.
"""

from typing import Any

from servetune.engines.counters import AT_POSITION, Counters
from servetune.study.engines import WITHOUT_MODEL

MAY_DRAFT_NOTHING = frozenset({*WITHOUT_MODEL, "custom_class", "extract_hidden_states"})
"""Methods that only draft what they find, or not at all."""

DRAFTS_BY_BATCH = "num_speculative_tokens_per_batch_size"
"""With it a large batch may go without drafts."""


def from_drafts(
    grown: Counters, speculative: dict[str, Any] | None, was_cut: bool = False
) -> dict[str, Any]:
    """Return the fields of a card that tell of drafts; none of a server that does not speculate.

    `grown` is what the server's counters grew by over a load, `speculative` its configuration. Of a
    load that `was_cut`, or failed in part, the engine verified drafts whose outputs nobody took.
    """
    if speculative is None or not grown:
        return {}
    later_tokens = grown.get("generation_tokens", 0.0) - grown.get("requests_finished", 0.0)
    may_be = speculative["method"] in MAY_DRAFT_NOTHING or DRAFTS_BY_BATCH in speculative
    has_drafted = bool(grown.get("drafts"))
    is_known = has_drafted or (later_tokens > 0 and not may_be)
    return {
        "drafted_nothing": not has_drafted if is_known else None,
        "draft_error_ratio": _error(grown, speculative["num_speculative_tokens"], was_cut),
    }


def _error(grown: Counters, most: int, was_cut: bool) -> float | None:
    """Return the largest share by which two counts of the same differ; `most` are in a draft."""
    accepted, drafts = grown.get("accepted_tokens"), grown.get("drafts")
    if accepted is None or drafts is None:
        return None
    errors = [0.0]
    if at := [value for name, value in grown.items() if name.startswith(AT_POSITION)]:
        errors.append(abs(sum(at) - accepted) / max(accepted, 1.0))
    if "draft_tokens" in grown:
        errors.append((grown["draft_tokens"] - most * drafts) / max(most * drafts, 1.0))
        errors.append((accepted - grown["draft_tokens"]) / max(grown["draft_tokens"], 1.0))
    first, later = grown.get("first_outputs"), grown.get("later_outputs")
    if first is not None and later and not was_cut:
        outputs = first + later
        by_drafts = grown.get("generation_tokens", 0.0) - accepted
        # The last draft of an answer may be longer than what was still to be said.
        unsaid = most * first
        errors += [
            (by_drafts - outputs) / outputs,
            (outputs - by_drafts - unsaid) / outputs,
            (drafts - later) / later,
        ]
    return max(errors)
