"""What a variant may be beside a server of ours: an endpoint that somebody else runs."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from servetune.study.base import Declared
from servetune.study.engines import PassedVariable

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


def _api_address(value: str) -> str:
    if not (address := _address(value)).endswith(API):
        raise ValueError(f"expected the address of the API, which ends in {API}")
    return address


_Text = Annotated[str, Field(min_length=1, max_length=200)]
_Longest = Field(max_length=2000)


class DeclaredEndpoint(Declared):
    """A server that servetune does not start, by its address; `hardware` is as its operator says.

    What it does not tell is shown as not known. Its cache is never emptied: prompts begin with a
    few tokens of their load point and launch alone (`prompt_salt`).
    """

    url: Annotated[str, _Longest, AfterValidator(_api_address)] = Field(
        description="of its OpenAI API, such as `http://127.0.0.1:8000/v1`"
    )
    model: _Text = Field(description="the model, as its requests name it")
    key_env: PassedVariable | None = Field(
        None, description="the variable of your shell that holds its key; only the name is recorded"
    )
    metrics: list[Annotated[str, _Longest, AfterValidator(_address)]] = Field(
        [], max_length=100, description="addresses of its metrics, one a server that answers"
    )
    block: _Text | None = Field(
        None, description="any text, such as a date: another one is another measurement"
    )

    @property
    def identity(self) -> dict[str, str]:
        """All of it that decides what is measured."""
        kept: dict[str, str] = self.model_dump(include={"url", "model", "block"}, exclude_none=True)
        return kept
