"""Fetch a repository of the Hugging Face hub, or say why not in one line.

    python -m servetune.models.inside.hub REPO [REVISION]

Prints the snapshot's folder; without a revision, the latest commit.
"""

import sys

from huggingface_hub import HfApi, constants, snapshot_download
from huggingface_hub.errors import (  # type: ignore[attr-defined]
    GatedRepoError,
    HfHubHTTPError,
    HTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

TOKEN = "set HF_TOKEN to a token of that account"


def explain(error: Exception, repo: str, revision: str | None) -> str:
    """Say what the hub has against a repository, and what to try."""
    hub = constants.ENDPOINT
    match error:
        case RevisionNotFoundError():
            return f"no revision {revision}; take a commit of {hub}/{repo}/commits/main"
        case GatedRepoError():
            return f"the repository is gated; ask for access at {hub}/{repo}, then {TOKEN}"
        case RepositoryNotFoundError():
            return (
                f"{hub} has no such repository, or it is private;"
                f" check the name, or {TOKEN} that may read it"
            )
        case HfHubHTTPError() if error.response.status_code in (401, 403):
            return f"{hub} refuses this account ({_status(error)}); {TOKEN} that may read it"
        case HfHubHTTPError():
            return f"{hub} answers {_status(error)}; try again later"
        case OfflineModeIsEnabled() | LocalEntryNotFoundError() | HTTPError():
            return (
                f"{hub} cannot be reached ({_named(error)}), and this host's cache lacks it;"
                " check network, HTTPS_PROXY, HF_ENDPOINT and HF_HUB_OFFLINE,"
                " or declare a copy on this host: {source: path, path: ...}"
            )
        case _:
            return _named(error)


def _status(error: HfHubHTTPError) -> str:
    return f"{error.response.status_code} {error.response.reason_phrase}".strip()


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or ['no message'])[0]}"


def main(repo: str, revision: str | None = None) -> None:
    """Fetch; on an error the last line on standard error explains it."""
    try:
        if revision is None:
            print(HfApi().model_info(repo).sha)
        else:
            print(snapshot_download(repo, revision=revision))
    except Exception as error:
        sys.exit(explain(error, repo, revision))


if __name__ == "__main__":
    main(*sys.argv[1:])
