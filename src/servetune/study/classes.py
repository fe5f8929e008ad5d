"""Classes of requests: what some requests of a workload ask for beside their prompt."""

import json
import re
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from servetune.study.base import Declared, Name, Seconds, Tokens

_OWN = {
    **dict.fromkeys(("stream", "stream_options"), "servetune streams all answers"),
    "model": "give `model` beside `extra_body`",
    **dict.fromkeys(("prompt", "messages"), "the dataset says what is sent"),
    **dict.fromkeys(
        ("max_tokens", "max_completion_tokens"), "the dataset says how long an answer is"
    ),
    **dict.fromkeys(("n", "best_of", "echo"), "a request has one answer, and no prompt in it"),
}
"""Fields of the API that servetune sets itself, and what to do instead."""

CHAT_ALONE = ("tools", "documents", "chat_template", "chat_template_kwargs")
"""Fields that only a chat has: its template makes more of a prompt for them."""


_CREDENTIAL = re.compile(
    r"(?:^|[_-])(?:api[_-]?key|authorization|password|secret|(?:access|auth)[_-]?token)$",
    re.IGNORECASE,
)


def _credential(value: Any, place: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the place of the first text that is named as a credential; None: there is none."""
    if isinstance(value, dict):
        inside = ((str(key), each) for key, each in value.items())
    elif isinstance(value, list):
        inside = ((str(index), each) for index, each in enumerate(value))
    else:
        is_named = isinstance(value, str) and place and _CREDENTIAL.search(place[-1])
        return place if is_named else None
    found = (_credential(each, (*place, key)) for key, each in inside)
    return next(filter(None, found), None)


def _not_ours(extra_body: dict[str, Any]) -> dict[str, Any]:
    for field in extra_body:
        if field in _OWN:
            raise ValueError(f"{field} is not for a class to set: {_OWN[field]}")
    if place := _credential(extra_body, ()):
        raise ValueError(
            f"{'.'.join(place)}: a credential would be recorded; send it as a header, by"
            " headers_env of the endpoint"
        )
    try:
        json.dumps(extra_body, allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError("expected JSON: text, finite numbers, true, false, lists, maps") from None
    return extra_body


Pixels = Annotated[int, Field(ge=16, le=4096)]


class Images(Declared):
    """Random images of a size, others in each request: no cache has them."""

    width: Pixels = Field(description="of each, in pixels")
    height: Pixels = Field(description="of each, in pixels")
    count: int = Field(1, ge=1, le=64, description="images in a request, after its prompt")


class RequestClass(Declared):
    """A kind of request, and its share of the load."""

    weight: float = Field(
        1, gt=0, le=1_000_000, description="its share of the conversations, relative to the others"
    )
    model: Name | None = Field(
        None, description="an adapter of the variant, by name; by default the model itself"
    )
    extra_body: Annotated[dict[str, Any], AfterValidator(_not_ours)] = Field(
        {},
        description="fields of the API that its requests have, such as `response_format`, `tools`,"
        " `chat_template_kwargs` or a `temperature` of its own",
    )

    images: Images | None = Field(
        None, description="images that its requests hold beside the prompt; chats alone"
    )
    leave_after_tokens: Tokens | None = Field(
        None, description="its clients close the connection after so many tokens of the answer"
    )
    leave_after_s: Seconds | None = Field(
        None, description="its clients close the connection so long after sending"
    )

    @property
    def leaves(self) -> bool:
        """Whether its clients do not wait for the end of an answer."""
        return self.leave_after_tokens is not None or self.leave_after_s is not None

    @model_validator(mode="after")
    def _grammar_is_one(self) -> Self:
        for key in ("response_format", "structured_outputs"):
            value = self.extra_body.get(key)
            if value is not None and not isinstance(value, dict):
                raise ValueError(f"extra_body.{key}: expected a map")
        return self

    @property
    def changes_prompt(self) -> bool:
        """Whether a chat makes more of a prompt than its dataset has: tools, or images."""
        return self.images is not None or any(field in self.extra_body for field in CHAT_ALONE)

    @property
    def may_end_early(self) -> bool:
        """Whether its answers end by themselves, whatever the workload says of them."""
        return (
            self.has_grammar
            or self.extra_body.get("ignore_eos") is False
            or "stop" in self.extra_body
        )

    @property
    def has_grammar(self) -> bool:
        """Whether its answers are held to a grammar, which also says where they end."""
        kind = (self.extra_body.get("response_format") or {}).get("type", "text")
        return kind != "text" or bool(self.extra_body.get("structured_outputs"))
