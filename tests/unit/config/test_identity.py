"""Hashes of configurations."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from omegaconf import OmegaConf

from sts_lightning.config.identity import configuration_hash, defining, file_digests, leaves, move_data

RUN = {"name": "a", "seed": 1, "data_root": "here", "data": {"dev_path": "${data_root}/x", "size": 2}}


def test_what_defines_a_run() -> None:
    cfg = OmegaConf.create({**RUN, "hydra": {}, "cache_dir": "???"})
    assert defining(cfg) == {**RUN, "data": {"dev_path": "here/x", "size": 2}}


def test_what_changes_the_hash() -> None:
    def of(named: bool = True, **changes: object) -> str:
        return configuration_hash(OmegaConf.create({**RUN, **changes}), named)

    assert of(data_root="there") == of(cache_dir="x") == of()
    assert of(seed=2) != of()
    assert of(name="b") != of()
    assert of(name="b", named=False) == of(named=False)


def test_an_edited_file_is_another_run(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    for cfg in ({"path": [str(file)]}, {"data": {"dev_path": f"{tmp_path}/*.csv"}}):
        file.write_text("a")
        hashes = [configuration_hash(OmegaConf.create({**RUN, **cfg}))]
        os.utime(file, ns=(1, 1))
        hashes.append(configuration_hash(OmegaConf.create({**RUN, **cfg})))
        file.write_text("b")
        hashes.append(configuration_hash(OmegaConf.create({**RUN, **cfg})))
        assert hashes[0] == hashes[1] != hashes[2]


def test_paths_below_the_data_root_are_told_from_it() -> None:
    """In lists and names too, while a word that begins alike stays."""
    settings = {
        "data_root": "data",
        "path": {"data/a.csv": 1},
        "files": ["data/b", "database/c"],
        "split": "data",
    }
    assert leaves(settings) == {
        "data_root": "data",
        "path.${data_root}/a.csv": 1,
        "files": ["${data_root}/b", "database/c"],
        "split": "data",
    }


def test_where_a_teacher_keeps_vectors_does_not_matter() -> None:
    def of(**settings: object) -> str:
        return configuration_hash(OmegaConf.create({**RUN, "auxiliary": {"sources": ["a"], **settings}}))

    assert of(cache_dir="here") == of(cache_dir="there") == of(cache_dir=None)
    assert of(precision="bf16-true") != of(precision=None)


def test_data_that_have_moved() -> None:
    cfg = OmegaConf.create(
        {
            "data_root": "data",
            "path": {"data/x.csv": 1, "database/y": 0.5},
            "data": {"dev_path": "data/z.csv", "split": "data"},
            "name": "data",
        }
    )
    move_data(cfg, "/b")
    data = {"dev_path": "/b/z.csv", "split": "data"}
    paths = {"/b/x.csv": 1, "database/y": 0.5}
    assert cfg == {"data_root": "/b", "path": paths, "data": data, "name": "data"}


def test_digests_of_the_files_that_settings_name(tmp_path: Path) -> None:
    def of(*contents: str) -> str:
        parts = "".join(hashlib.sha256(content.encode()).hexdigest() for content in contents)
        return hashlib.sha256(parts.encode()).hexdigest()

    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.csv").write_text(name)
    a, b = str(tmp_path / "a.csv"), str(tmp_path / "b.csv")
    parts = {"own": {"path": b}, "nli": "nli_triplets"}
    settings = {"path": {b: 1.0, a: 0.5}, "data": {"dev_path": a, "test_path": None, "parts": parts}}
    assert file_digests(settings) == {
        "path": of("b", "a"),
        "data.dev_path": of("a"),
        "data.parts.own.path": of("b"),
    }
    assert file_digests({"path": f"{tmp_path}/*.csv"}) == file_digests({"path": str(tmp_path)})
    assert file_digests({"path": f"{tmp_path}/*.csv", "test": [a]}) == {
        "path": of("a", "b", "c"),
        "test": of("a"),
    }
    assert file_digests({"path": "owner/name"}) == {}
    (tmp_path / "b.csv").write_text("B")
    assert file_digests({"path": b}) == {"path": of("B")}
