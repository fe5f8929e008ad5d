"""What a variant may be beside a server of ours: an endpoint that somebody else runs."""

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from servetune.study.base import AtMost, Declared, Requests
from servetune.study.engines import PassedVariable
from servetune.study.families import FAMILIES

API = "/v1"
"""Where the paths of the API begin."""


def _address(value: str) -> str:
    """Return an HTTP address without a slash at its end; raises ValueError."""
    try:
        parts = urlsplit(value)
        is_http = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_http = False
    if not is_http or not value.isprintable() or " " in value:
        raise ValueError("expected an address that begins with http:// or https://")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(
            "expected an address alone, as it is recorded; name the variable that holds a key in"
            " key_env"
        )
    return value.rstrip("/")


def api_address(value: str) -> str:
    """Return the address of an API without a slash at its end; raises ValueError."""
    if not (address := _address(value)).endswith(API):
        raise ValueError(f"expected the address of the API, which ends in {API}")
    return address


_OWN_HEADERS = ("content-type", "content-length", "host", "x-session-id")

_Text = Annotated[str, Field(min_length=1, max_length=200)]
_Longest = Field(max_length=2000)


OPENAI = "openai"
"""The dialect of an API that refuses a field which OpenAI's own has not."""

EndpointDialect = Literal["vllm", "llama-cpp", "openai"]
DIALECTS: tuple[str, ...] = (*(family.name for family in FAMILIES), OPENAI)

_HEADER = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"
_Header = Annotated[str, Field(pattern=_HEADER, max_length=100)]
_Tokens = Annotated[int, Field(ge=1), AtMost(10**12, "no endpoint is asked for more")]
_Usd = Annotated[float, Field(gt=0), AtMost(1_000_000, "no endpoint is asked for more")]
_UsdPerMillion = Annotated[float, Field(ge=0), AtMost(100_000, "no endpoint takes more")]


class SpendLimits(Declared):
    """The most that this study may take from an endpoint, over all its launches and restarts."""

    requests: Requests | None = Field(
        None, description="requests for an answer, warm-up and refused ones included"
    )
    output_tokens: _Tokens | None = Field(None, description="output tokens")
    usd: _Usd | None = Field(None, description="money, by `price`")

    @model_validator(mode="after")
    def _some(self) -> Self:
        if all(limit is None for _, limit in self):
            raise ValueError("expected one of requests, output_tokens, usd")
        return self


class TokenPrice(Declared):
    """What an endpoint costs."""

    input_usd_per_million: _UsdPerMillion = Field(description="USD per million input tokens")
    output_usd_per_million: _UsdPerMillion = Field(description="USD per million output tokens")


class DeclaredEndpoint(Declared):
    """A server that servetune does not start, by its address; `hardware` is as its operator says.

    What it does not tell is shown as not known. Its cache is never emptied: prompts begin with a
    few tokens of their load point and launch alone (`prompt_salt`).
    """

    url: Annotated[str, _Longest, AfterValidator(api_address)] = Field(
        description="of its OpenAI API, such as `http://127.0.0.1:8000/v1`"
    )
    model: _Text = Field(description="the model, as its requests name it")
    key_env: PassedVariable | None = Field(
        None, description="the variable of your shell that holds its key; only the name is recorded"
    )
    headers_env: dict[_Header, PassedVariable] = Field(
        {},
        max_length=20,
        description="further headers of its requests, each with the variable of your shell that"
        " holds its value, such as `X-Api-Key: GATEWAY_KEY`",
    )
    ca: Path | None = Field(
        None, description="a file of certificates (PEM) that its own is checked with"
    )
    dialect: EndpointDialect | None = Field(
        None,
        description="the engine behind it, by default the one whose names its `metrics` have;"
        " `openai` is sent no field that OpenAI's API lacks",
    )
    metrics: list[Annotated[str, _Longest, AfterValidator(_address)]] = Field(
        [], max_length=100, description="addresses of its metrics, one a server that answers"
    )
    block: _Text | None = Field(
        None,
        description="any text, such as a date: another one is another measurement, with limits of"
        " its own",
    )
    limits: SpendLimits | None = Field(
        None, description="the most that is taken from it; without them no load is sent"
    )
    price: TokenPrice | None = Field(None, description="what it costs; needed by `limits.usd`")
    search: bool = Field(
        False, description="whether a search for its capacity, which overloads it, is allowed"
    )

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.limits and self.limits.usd is not None and self.price is None:
            raise ValueError("limits.usd needs a price; declare price beside limits")
        if twice := [name for name in self.headers_env if name.lower() in _OWN_HEADERS]:
            raise ValueError(f"headers_env: {twice[0]} is set by servetune; leave it out")
        if self.key_env and any(name.lower() == "authorization" for name in self.headers_env):
            raise ValueError("headers_env: Authorization is key_env's; leave one of both out")
        return self

    @property
    def identity(self) -> dict[str, str]:
        """All of it that decides what is measured."""
        kept: dict[str, str] = self.model_dump(include={"url", "model", "block"}, exclude_none=True)
        return kept

    @property
    def variables(self) -> dict[str, str]:
        """The variables that hold its secrets, by the key of the study that names each."""
        of_headers = {f"headers_env.{name}": each for name, each in self.headers_env.items()}
        return {**({"key_env": self.key_env} if self.key_env else {}), **of_headers}
