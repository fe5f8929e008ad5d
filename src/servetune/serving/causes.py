"""Why an endpoint does not answer, or refuses: told apart, in a line each."""

import socket
import ssl
from collections.abc import Iterator
from http import HTTPStatus

import httpx

from servetune.sentences import refusal, sentence


def why_no_answer(error: httpx.HTTPError, url: httpx.URL) -> str:
    """Say why a request had no answer: name, port, TLS, time, or no HTTP at all."""
    for cause in _causes(error):
        if isinstance(cause, socket.gaierror):
            return f"DNS knows no address of {url.host}"
        if isinstance(cause, ssl.SSLCertVerificationError):
            return (
                f"TLS: its certificate is not trusted ({cause.verify_message}); name its"
                " authority's file in ca, or the host as the certificate does"
            )
        if isinstance(cause, ssl.SSLError):
            return f"TLS: {_reason(cause)}; is it http:// there, and not https://?"
        if isinstance(cause, ConnectionRefusedError):
            return f"nothing listens at port {_port(url)} (connection refused)"
    if isinstance(error, httpx.ConnectTimeout):
        return f"no connection to port {_port(url)} in time; is a firewall between?"
    if isinstance(error, httpx.TimeoutException):
        return "it takes the connection, but answers nothing in time"
    if isinstance(error, httpx.RemoteProtocolError):
        return f"no HTTP there ({sentence(error)}); is it https://, and not http://?"
    return sentence(error) or type(error).__name__


def why_refused(answer: httpx.Response, *, has_key: bool) -> str:
    """Say why a request was refused: key, rights, rate, address, or the server itself."""
    told, status = refusal(answer.status_code, answer.text), answer.status_code
    match status:
        case HTTPStatus.UNAUTHORIZED if has_key:
            return f"does not take the key: {told}"
        case HTTPStatus.UNAUTHORIZED:
            return f"asks for a key: {told}; name the variable that holds it in key_env"
        case HTTPStatus.FORBIDDEN:
            return f"forbids it: {told}; may this key use this API and model?"
        case HTTPStatus.TOO_MANY_REQUESTS:
            return f"is at its limit already: {told}; try again later"
        case HTTPStatus.NOT_FOUND:
            return f"has nothing at {answer.request.url.path}: {told}; is it the OpenAI API?"
    if answer.has_redirect_location:
        place = answer.headers["location"].partition("?")[0]
        return f"sends elsewhere: HTTP {status} to {sentence(place)}; give that address"
    if answer.is_server_error:
        return f"fails: {told}"
    return f"refuses a small request: {told}"


def is_of_model(answer: httpx.Response) -> bool:
    """Tell whether a refusal is of the model that was asked for."""
    is_of_request = answer.status_code in (HTTPStatus.NOT_FOUND, HTTPStatus.BAD_REQUEST)
    return is_of_request and "model" in refusal(answer.status_code, answer.text).lower()


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, and what it came from."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).lower().replace("_", " ")


def _port(url: httpx.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)
