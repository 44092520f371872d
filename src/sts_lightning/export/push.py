"""Upload of an exported folder to the model hub."""

from __future__ import annotations

import json
import logging
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, constants, get_token
from huggingface_hub import errors as hub_errors
from huggingface_hub.utils import validate_repo_id

from sts_lightning.errors import ConfigError, PushError
from sts_lightning.strict_json import parse_json

LOGIN = "Log in with `hf auth login`, or set HF_TOKEN to a token that may write."

WRITTEN = ".sts_lightning_files.json"
"""Name of the list, in the repository, of the files that the last push wrote."""


@dataclass(frozen=True)
class Target:
    """Place of a model on the hub.

    Args:
        repo: Id of the repository, ``owner/name``; it is created if it does not exist.
        private: Whether only its owner may read it.
        branch: Branch, which is created if it does not exist; None for the main one.
    """

    repo: str
    private: bool = False
    branch: str | None = None

    def check(self) -> None:
        """Check the name and that there is a token, without asking the hub.

        Raises:
            ConfigError: The name is none of the hub's.
            PushError: There is no token, or HF_HUB_OFFLINE forbids to ask the hub.
        """
        try:
            validate_repo_id(self.repo)
            if "/" not in self.repo:
                raise hub_errors.HFValidationError("the owner is missing.")
        except hub_errors.HFValidationError as error:
            raise ConfigError(
                f"--push {self.repo}: {str(error).splitlines()[0]}", key="push", hint="Give it as OWNER/NAME."
            ) from error
        if constants.HF_HUB_OFFLINE:
            raise PushError(
                "--push: HF_HUB_OFFLINE forbids to ask the hub.", key="HF_HUB_OFFLINE", hint="Unset it."
            )
        if get_token() is None:
            raise PushError("--push: there is no token of the hub.", key="HF_TOKEN", hint=LOGIN)

    def command(self, folder: Path) -> str:
        """Return the command of huggingface_hub that uploads a folder to this place."""
        options = ["--private"] * self.private + ([] if self.branch is None else ["--revision", self.branch])
        return shlex.join(["hf", "upload", self.repo, str(folder), ".", *options])


def push(folder: Path, target: Target) -> str:
    """Upload all files of a folder as one commit, and return the commit's address.

    The commit deletes what the previous push wrote and the folder lacks, by the list in `WRITTEN`. Other
    files of the repository stay.

    Args:
        folder: Exported folder.
        target: Place on the hub.

    Raises:
        ConfigError: A private repository is asked for, and there is a public one.
        PushError: The hub cannot be reached, or rejects the upload, or the list of the previous push is
            broken; the folder stays as it is.
    """
    for name in ("httpx", "httpx2"):  # the hub's client logs every request through one of them
        logging.getLogger(name).setLevel(logging.WARNING)
    api = HfApi(token=get_token())
    try:
        api.create_repo(target.repo, private=target.private or None, exist_ok=True)
        if target.private and not api.model_info(target.repo).private:
            raise ConfigError(
                f"--private: {target.repo} exists and is public; nothing was uploaded.",
                key="private",
                hint="Give another name, or make it private in its settings on the hub.",
            )
        if target.branch is not None:
            api.create_branch(target.repo, branch=target.branch, exist_ok=True)
        done = api.create_commit(
            repo_id=target.repo,
            operations=_changes(api, folder, target),
            revision=target.branch,
            commit_message="Export of STS-Lightning",
        )
    except (hub_errors.HTTPError, OSError, ValueError, RuntimeError) as error:  # RuntimeError: xet's
        raise _explained(error, folder, target) from error
    return str(done.commit_url)


def _changes(api: HfApi, folder: Path, target: Target) -> list[CommitOperationAdd | CommitOperationDelete]:
    """Return the operations that upload a folder, and delete the rest of the previous push."""
    files = {
        path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()
    }
    there = set(api.list_repo_files(target.repo, revision=target.branch))
    earlier = _written(api, target) if WRITTEN in there else set()
    listed = json.dumps({"files": list(files)}, indent=2).encode()
    return [
        *(CommitOperationAdd(name, path) for name, path in files.items()),
        CommitOperationAdd(WRITTEN, listed),
        *(CommitOperationDelete(name, is_folder=False) for name in sorted(earlier & there - files.keys())),
    ]


def _written(api: HfApi, target: Target) -> set[str]:
    """Return the names of the files that the previous push wrote.

    Raises:
        PushError: Their list is broken.
    """
    with tempfile.TemporaryDirectory() as place:
        path = api.hf_hub_download(target.repo, WRITTEN, revision=target.branch, local_dir=place)
        content = Path(path).read_bytes()
    try:
        names = parse_json(content.decode())["files"]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise TypeError("files is no list of names")
    except (ValueError, KeyError, TypeError) as error:
        raise PushError(
            f"--push {target.repo}: {WRITTEN} in the repository is no list of the files of the previous push "
            f"({type(error).__name__}: {error}); nothing was uploaded.",
            key="push",
            hint=f"Delete {WRITTEN} there, and by hand the files that are no longer wanted.",
        ) from error
    return set(names)


def _explained(error: Exception, folder: Path, target: Target) -> PushError:
    """Return the error for the user, without the token."""
    again = f"The export stays in {folder}; push it with `{target.command(folder)}`."
    told = " ".join(str(error).split()) or type(error).__name__
    token = get_token()
    told = told.replace(token, "***") if token else told
    status = error.response.status_code if isinstance(error, hub_errors.HfHubHTTPError) else None
    if status == 401:
        return PushError(
            f"--push {target.repo}: the hub does not accept the token (HTTP 401).",
            key="HF_TOKEN",
            hint=f"{LOGIN} {again}",
        )
    if status == 403:
        return PushError(
            f"--push {target.repo}: the token may not write there (HTTP 403).",
            key="push",
            hint=f"Check the owner and the permissions of the token. {again}",
        )
    if status is None and not isinstance(error, ValueError):
        return PushError(
            f"--push {target.repo}: {constants.ENDPOINT} cannot be reached ({told}).",
            key="HF_ENDPOINT",
            hint=f"Check the network and HF_ENDPOINT. {again}",
        )
    return PushError(f"--push {target.repo}: the hub rejects the upload ({told}).", key="push", hint=again)
