"""Upload of an exported folder to the model hub."""

from __future__ import annotations

import logging
import shlex
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import HfApi, constants, get_token
from huggingface_hub import errors as hub_errors
from huggingface_hub.utils import validate_repo_id

from sts_lightning.core.errors import ConfigError, PushError

LOGIN = "Log in with `hf auth login`, or set HF_TOKEN to a token that may write."


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
            ConfigError: The name is not valid on the hub.
            PushError: There is no token.
        """
        try:
            validate_repo_id(self.repo)
            _owner, _name = self.repo.split("/")
        except ValueError as error:
            wrong = f"--push {self.repo}: this is no name of a repository."
            raise ConfigError(wrong, key="push", hint="Give it as OWNER/NAME.") from error
        if get_token() is None:
            raise PushError("--push: there is no token of the hub.", key="HF_TOKEN", hint=LOGIN)

    def command(self, folder: Path) -> str:
        """Return the command of huggingface_hub that uploads a folder to this place."""
        options = ["--private"] * self.private + ([] if self.branch is None else ["--revision", self.branch])
        return shlex.join(["hf", "upload", self.repo, str(folder), ".", *options])


EXPORT_FILES = (
    *("model*.safetensors", "model.safetensors.index.json", "adapter_model.safetensors", "model.onnx*"),
    *("config.json", "adapter_config.json", "sentence_bert_config.json", "config_sentence_transformers.json"),
    *("[0-9]_*/config.json", "[0-9]_*/*.safetensors", "modules.json", "template_transformer.py"),
    *("sts_lightning.json", "tokenizer*", "vocab*", "merges.txt", "added_tokens.json"),
    *("special_tokens_map.json", "chat_template*"),
)
"""Names of the files of exports: weights, settings, modules and tokenizers."""


def push(folder: Path, target: Target) -> str:
    """Upload all files of a folder as one commit, and return the commit's address.

    The commit deletes those of `EXPORT_FILES` that the folder lacks, since weights or modules of an earlier
    export would be read with those of this one. Other files stay.

    Raises:
        ConfigError: A private repository is asked for, and there is a public one.
        PushError: The hub cannot be reached, or rejects the upload; the folder stays as it is.
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
        done = api.upload_folder(
            repo_id=target.repo,
            folder_path=folder,
            revision=target.branch,
            commit_message="Export of STS-Lightning",
            delete_patterns=list(EXPORT_FILES),
        )
    # hf_xet, which uploads large files, raises RuntimeError.
    except (hub_errors.HTTPError, OSError, ValueError, RuntimeError) as error:
        raise _explained(error, folder, target) from error
    return str(done.commit_url)


def _explained(error: Exception, folder: Path, target: Target) -> PushError:
    """Return the error for the user, without the token."""
    reason = " ".join(str(error).split()) or type(error).__name__
    token = get_token()
    reason = reason.replace(token, "***") if token else reason
    key, hint = "push", "Check the owner and the permissions of the token."
    if isinstance(error, hub_errors.HfHubHTTPError):
        if error.response.status_code == 401:
            key, hint = "HF_TOKEN", LOGIN
    elif not isinstance(error, ValueError):
        key, hint = "HF_ENDPOINT", f"Check the network, {constants.ENDPOINT} and HF_ENDPOINT."
    again = f"The export stays in {folder}; push it with `{target.command(folder)}`."
    return PushError(f"--push {target.repo}: it failed ({reason}).", key=key, hint=f"{hint} {again}")
