"""The local hub, as the hub's own clients see it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from huggingface_hub import HfApi, get_hf_file_metadata, hf_hub_download, hf_hub_url

from tests.support.hub_server import Hub

SMALL = b"sentence1,sentence2,score\na,b,1.5\n"
LARGE = b"a line of a larger file\n" * 50


def test_the_hubs_clients_read_it(hub: Hub) -> None:
    old = hub.add("me/pairs", {"train.csv": SMALL})
    new = hub.add("me/pairs", {"train.csv": SMALL, "more/large.txt": LARGE})
    api = HfApi(endpoint=hub.url)
    assert api.dataset_info("me/pairs").sha == new
    assert sorted(api.list_repo_files("me/pairs", repo_type="dataset")) == ["more/large.txt", "train.csv"]
    assert api.list_repo_files("me/pairs", repo_type="dataset", revision=old) == ["train.csv"]
    metadata = get_hf_file_metadata(hf_hub_url("me/pairs", "more/large.txt", repo_type="dataset"))
    assert (metadata.commit_hash, metadata.size) == (new, len(LARGE))
    assert metadata.etag == hashlib.sha256(LARGE).hexdigest()
    for name, content in (("train.csv", SMALL), ("more/large.txt", LARGE)):
        path = hf_hub_download("me/pairs", name, repo_type="dataset")
        assert Path(path).read_bytes() == content


def test_datasets_are_loaded_and_streamed_from_it(hub: Hub) -> None:
    import datasets

    hub.add("me/pairs", {"train.csv": SMALL})
    table = datasets.load_dataset("me/pairs", split="train")
    assert table["score"][0] == 1.5
    streamed = datasets.load_dataset("me/pairs", split="train", streaming=True)
    assert next(iter(streamed))["sentence2"] == "b"
