"""A run on rows of a query and its answers: what selects it, what it stores, and what reads that."""

from __future__ import annotations

import html
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

import sts_lightning
from sts_lightning.cli.main import main
from sts_lightning.core.errors import ConfigError
from sts_lightning.data.ranking import Ranking
from sts_lightning.data.readers.sts_sets import SEVEN_TASKS, STSTask
from sts_lightning.evaluation.retrieval import TITLES
from sts_lightning.evaluation.verdict import RESAMPLES, in_words, stored_verdict, verdict_of
from sts_lightning.export.card import card_facts, model_card
from sts_lightning.export.export import export
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.predictions import load_dev
from sts_lightning.testing.toy import scored_pairs
from sts_lightning.training.assembly import make_data
from sts_lightning.workflows.average import average_runs
from sts_lightning.workflows.evaluate import evaluate_in
from sts_lightning.workflows.start import train_in
from sts_lightning.workflows.verify import verify
from tests.conftest import CONF, EXACT
from tests.support.interruptions import PowerCut
from tests.support.parts import losses, part
from tests.support.row_files import ROW_RUN, write_rows
from tests.support.whole_runs import metrics, same_results

Config = Callable[..., DictConfig]


@pytest.fixture(scope="session")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    write_rows(folder / "qa.csv")
    write_rows(folder / "other.csv", 40, 2, seed=5)
    return folder


@pytest.fixture(scope="session")
def trained(rows: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing stopped; it keeps the state to resume from."""
    run = tmp_path_factory.mktemp("runs") / "whole"
    with initialize_config_dir(str(CONF), version_base="1.3"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunFolder, "remove_state", lambda run: None)
        train_in(run, compose("train", [EXACT, *ROW_RUN, f"path={rows}/qa.csv", "name=test"]))
    return run


def dev_of(run: Path) -> Ranking:
    data = make_data(RunFolder(run).load_config())
    data.setup()
    assert isinstance(data.dev, Ranking)
    return data.dev


def slow_mrr(dev: Ranking, encode: Callable[..., Any]) -> np.ndarray:
    """Reciprocal rank of the first answer among ten, one query at a time, in float64."""
    queries, texts = (np.asarray(encode(list(each), prompt=role), np.float64) for role, each in dev.texts())
    found = []
    for query, text, right in zip(queries, dev.queries, dev.relevant, strict=True):
        cosines = texts @ query / np.linalg.norm(texts, axis=1) / np.linalg.norm(query)
        others = [place for place in range(len(texts)) if dev.candidates[place] != text or place in right]
        order = sorted(others, key=lambda place: -cosines[place])[:10]
        found.append(next((1 / rank for rank, place in enumerate(order, 1) if place in right), 0.0))
    return np.array(found)


def test_the_logged_score_is_that_of_the_report_and_of_encode(trained: Path) -> None:
    run, dev = RunFolder(trained), dev_of(trained)
    stored = metrics(trained)
    history = {row["step"]: row["dev/mrr@10"] for row in run.history() if "dev/mrr@10" in row}
    best = max((step for step in history if step > 0), key=lambda step: history[step])
    assert stored["best_step"] == best
    assert len(history) >= 4
    encoder = sts_lightning.load(trained)
    tuned = slow_mrr(dev, encoder.encode)
    assert history[best] == pytest.approx(100 * tuned.mean(), abs=1e-4)
    assert stored["dev"]["mrr@10"] == pytest.approx(100 * tuned.mean(), abs=1e-6)
    assert stored["dev_untuned"] == history[0]
    assert (stored["dev"]["queries"], stored["dev"]["candidates"]) == (12, len(dev.candidates))
    assert {*TITLES} < stored["dev"].keys()
    assert stored["test"] is None
    found = load_dev(run)
    np.testing.assert_allclose(found["selected"][1]["mrr@10"], tuned)  # type: ignore[call-overload]
    assert (found["untuned"][0], found["selected"][0]) == (0, best)
    queries = set(dev.queries)
    data = make_data(run.load_config())
    data.setup()
    assert not queries & {*data.train["sentence1"], *data.train["sentence2"]}


def test_the_verdict_is_that_of_a_slow_bootstrap(trained: Path) -> None:
    found = load_dev(RunFolder(trained))
    values: list[Any] = [found[name][1] for name in ("untuned", "selected")]
    gaps = 100 * (values[1]["mrr@10"] - values[0]["mrr@10"])
    rng = np.random.default_rng(7)
    means = [gaps[rng.integers(len(gaps), size=len(gaps))].mean() for _ in range(RESAMPLES)]
    verdict = stored_verdict(RunFolder(trained))
    assert verdict["difference"] == pytest.approx(gaps.mean())
    assert [verdict["low"], verdict["high"]] == pytest.approx(np.percentile(means, (2.5, 97.5)), abs=0.7)
    assert (verdict["score"], verdict["units"]) == ("MRR@10", "12 held-out queries")
    assert verdict["before"] == pytest.approx(100 * values[0]["mrr@10"].mean())
    assert verdict["after"] == pytest.approx(metrics(trained)["dev"]["mrr@10"])


def last_line(caplog: pytest.LogCaptureFixture) -> str:
    return str(caplog.messages[-1])


def test_what_reads_the_run(
    trained: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    stored, verdict = metrics(trained), stored_verdict(RunFolder(trained))
    line = f"MRR@10 {verdict['before']:.1f} -> {verdict['after']:.1f}, {verdict['difference']:+.1f} ["
    main(["runs", "compare", str(trained)])
    assert last_line(caplog).startswith(f"whole: {verdict['verdict']}: {line}")
    assert last_line(caplog).endswith("on 12 held-out queries")
    page = html.unescape((trained / "report.html").read_text())
    assert line in page
    assert f"{stored['dev']['ndcg@10']:.2f}" in page
    assert "MRR@10" in page
    assert list(dict(verify(RunFolder(trained)))) == ["config.yaml", "metrics.json", "model", "dev.npz"]
    main(["runs", "list", str(trained.parent)])
    assert f"{stored['dev']['mrr@10']:.2f}" in capsys.readouterr().out
    exported = tmp_path / "exported"
    export(trained, exported, "sentence-transformers")
    card = model_card(card_facts(trained), "sentence-transformers", None, "me/mine", exported)
    assert "MRR@10" in card
    assert f"{verdict['after']:.1f}" in card
    assert "Spearman" not in card.partition("## Usage")[0]


def test_two_runs_are_compared_on_the_queries_held_out(
    trained: Path, rows: Path, config: Config, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Seeds of a sweep share them; those of another split are other queries."""
    caplog.set_level("INFO")
    for name, setting in (("seed", "seed=2"), ("split", "data.seed=2")):
        own = [f"path={rows}/qa.csv", "trainer.max_steps=4", setting]
        train_in(tmp_path / name, config(*ROW_RUN, *own))
    assert dev_of(tmp_path / "seed").hash == dev_of(trained).hash != dev_of(tmp_path / "split").hash
    main(["runs", "compare", str(trained), "--to", str(tmp_path / "seed"), "--resamples", "50"])
    ours, theirs = (metrics(run)["dev"]["mrr@10"] for run in (trained, tmp_path / "seed"))
    assert f"MRR@10 {ours:.1f} -> {theirs:.1f}, {theirs - ours:+.1f} [" in last_line(caplog)
    assert "on 12 held-out queries" in last_line(caplog)
    with pytest.raises(SystemExit, match="on different pairs under the name dev"):
        main(["runs", "compare", str(trained), "--to", str(tmp_path / "split")])
    average = average_runs([trained, tmp_path / "seed"], tmp_path / "average", [0.5])
    stored = metrics(tmp_path / "average")
    assert list(average)[2:] == ["average, share 1", "average, share 0.5"]
    assert stored["dev"]["mrr@10"] == pytest.approx(max(list(average.values())[2:]))
    encode = sts_lightning.load(tmp_path / "average").encode
    assert stored["dev"]["mrr@10"] == pytest.approx(100 * slow_mrr(dev_of(trained), encode).mean())
    main(["runs", "compare", str(trained), "--to", str(tmp_path / "average"), "--resamples", "50"])
    assert f"-> {stored['dev']['mrr@10']:.1f}, " in last_line(caplog)


def test_killed_after_the_first_evaluation(trained: Path, rows: Path, config: Config, tmp_path: Path) -> None:
    run, own = tmp_path / "run", [*ROW_RUN, f"path={rows}/qa.csv"]
    with pytest.raises(RuntimeError, match="power cut"):
        train_in(run, config(*own, "trainer.save_every=1"), callbacks=[PowerCut(5)])
    found = load_dev(RunFolder(run))
    assert found.keys() == {"untuned", "selected"}
    train_in(run, RunFolder(run).load_config(), resume=True)
    same_results(trained, run)
    assert metrics(run)["verdict"] == metrics(trained)["verdict"]
    with np.load(run / "dev.npz") as ours, np.load(trained / "dev.npz") as theirs:
        assert sorted(ours.files) == sorted(theirs.files)
        for name in ours.files:
            np.testing.assert_array_equal(ours[name], theirs[name])


def test_without_dev_npz_there_is_no_verdict_and_nothing_is_lost(
    trained: Path, rows: Path, config: Config, tmp_path: Path
) -> None:
    run, own = tmp_path / "run", [*ROW_RUN, f"path={rows}/qa.csv"]
    with pytest.raises(RuntimeError, match="power cut"):
        train_in(run, config(*own, "trainer.save_every=1"), callbacks=[PowerCut(5)])
    RunFolder(run).dev_file.unlink()
    train_in(run, RunFolder(run).load_config(), resume=True)
    same_results(trained, run)
    assert "verdict" not in metrics(run)
    with pytest.raises(SystemExit, match="run has no verdict on its dev data beside the untuned model"):
        main(["runs", "compare", str(run)])


def test_a_broken_file_in_the_report_is_a_warning(
    trained: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = RunFolder(shutil.copytree(trained, tmp_path / "run"))
    best = metrics(run.path)["best_step"]
    assert verdict_of(run, best) == stored_verdict(run)
    assert verdict_of(run, best + 1) is None  # other weights
    run.dev_file.write_bytes(b"broken")
    assert verdict_of(run, best) is None
    assert "no verdict: " in caplog.text


def test_settings_that_need_scored_pairs_end_before_training(
    rows: Path, config: Config, tmp_path: Path
) -> None:
    own = [*ROW_RUN, f"path={rows}/qa.csv"]
    with pytest.raises(ConfigError, match=r"callbacks.rank_monitor needs scored dev pairs") as raised:
        train_in(tmp_path / "rank", config(*own, "callbacks=rank_monitor"))
    assert "data.dev_fraction=0" in str(raised.value)
    with pytest.raises(ConfigError, match=r"monitor=dev/spearman is not measured") as raised:
        train_in(
            tmp_path / "stop",
            config(*own, "callbacks=early_stopping", "callbacks.early_stopping.monitor=dev/spearman"),
        )
    assert "dev/mrr@10" in str(raised.value)
    assert "dev/score" in str(raised.value)


def test_early_stopping_and_the_untuned_weights(rows: Path, config: Config, tmp_path: Path) -> None:
    """A learning rate that destroys the model: the weights before training are selected."""
    own = [f"path={rows}/qa.csv", "optim.lr=0.5", "optim.warmup=0", "trainer.max_epochs=10"]
    own += ["trainer.select_untuned=true", "callbacks=early_stopping", "callbacks.early_stopping.patience=2"]
    train_in(tmp_path / "run", config(*ROW_RUN, *own))
    stored = metrics(tmp_path / "run")
    assert stored["steps"] < 60
    assert stored["best_step"] == 0
    assert stored["dev"]["mrr@10"] == pytest.approx(stored["dev_untuned"], abs=1e-4)
    verdict = stored["verdict"]
    assert verdict["verdict"] == "no difference found"
    assert (verdict["difference"], verdict["low"], verdict["high"]) == (0, 0, 0)


def test_an_average_with_the_start(rows: Path, config: Config, tmp_path: Path) -> None:
    """What a comparison reads afterwards is of the weights that were selected in the end."""
    own = [f"path={rows}/qa.csv", "trainer.wise_ft=[0.5]", "optim.lr=0.02", "optim.warmup=0"]
    train_in(tmp_path / "run", config(*ROW_RUN, *own, "trainer.max_steps=4"))
    stored, found = metrics(tmp_path / "run"), load_dev(RunFolder(tmp_path / "run"))
    assert stored["wise_ft"]["share"] in (0.5, 1)
    assert stored["dev"]["mrr@10"] == pytest.approx(max(stored["wise_ft"]["dev"].values()))
    values: Any = found["selected"][1]
    assert 100 * values["mrr@10"].mean() == pytest.approx(stored["dev"]["mrr@10"])
    assert stored["verdict"]["after"] == pytest.approx(stored["dev"]["mrr@10"])
    encode = sts_lightning.load(tmp_path / "run").encode
    assert 100 * slow_mrr(dev_of(tmp_path / "run"), encode).mean() == pytest.approx(stored["dev"]["mrr@10"])


def test_evaluations_of_files(
    trained: Path, rows: Path, config: Config, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    def run(name: str, *overrides: str) -> dict[str, Any]:
        cfg = config(f"ckpt={trained}", "accelerator=cpu", f"test={rows}/other.csv", *overrides, of="eval")
        evaluate_in(tmp_path / name, cfg)
        return metrics(tmp_path / name)

    plain = run("plain")
    entry = plain["test"]["tasks"]["other"]
    assert (entry["queries"], entry["candidates"]) == (40, 40)
    assert plain["test"]["average"] == entry["mrr@10"]
    cached = [run(name, f"cache_dir={tmp_path}/vectors", "normalize=true") for name in ("one", "two")]
    for other in cached:
        assert other["test"]["tasks"]["other"] == pytest.approx(entry)
    assert [each["vectors_from_cache"] for each in cached] == [0, 80]
    with np.load(tmp_path / "plain" / "predictions.npz") as stored:
        assert {*stored.files} == {"other/pairs", *(f"other/{key}" for key in TITLES if key != "triplets")}
        assert 100 * stored["other/mrr@10"].mean() == pytest.approx(entry["mrr@10"])
    base = tmp_path / "base"
    evaluate_in(base, config("model=tiny_bert", "accelerator=cpu", f"test={rows}/other.csv", of="eval"))
    untuned = metrics(base)["test"]["average"]
    main(["runs", "compare", str(base), "--to", str(tmp_path / "plain"), "--resamples", "200"])
    gap = entry["mrr@10"] - untuned
    assert f"MRR@10 {untuned:.1f} -> {entry['mrr@10']:.1f}, {gap:+.1f} [" in last_line(caplog)
    assert last_line(caplog).endswith("on 40 test queries")
    list(verify(RunFolder(tmp_path / "plain")))  # nothing is wrong
    (rows / "scored.csv").write_text("sentence1,sentence2,score\na,b,1\nc,d,2\n")
    with pytest.raises(ConfigError, match="other has queries to rank for, and scored scored pairs"):
        run("both", f"test=[{rows}/other.csv,{rows}/scored.csv]")
    with pytest.raises(ConfigError, match="dims: only scored pairs have such scores"):
        run("dims", "dims=[8]")


def test_a_test_file_of_rows_is_reported_beside_others(
    rows: Path, config: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = [f"path={rows}/qa.csv", f"data.test_path={rows}/other.csv", "evaluation.untuned=true"]
    train_in(tmp_path / "run", config(*ROW_RUN, *own, "trainer.max_steps=4"))
    stored, printed = metrics(tmp_path / "run"), capsys.readouterr().out
    assert stored["test_untuned"]["tasks"]["other"]["queries"] == 40
    assert "Spearman" not in printed
    assert f"{stored['test']['tasks']['other']['mrr@10']:.2f}" in printed
    assert "predictions.npz" in dict(verify(RunFolder(tmp_path / "run")))
    main(["runs", "list", str(tmp_path)])
    assert f"{stored['test']['average']:.2f}" in capsys.readouterr().out


def test_rows_select_in_joint_data(rows: Path, config: Config, tmp_path: Path) -> None:
    own = ["data=joint", *part("qa", "triplets_file", path=rows / "qa.csv", batch_size=16)]
    own += part("sts", "toy", batch_size=10, train_size=60, dev_size=50, test_size=60)
    own += [*losses(qa="infonce", sts="pearson"), "data.dev_part=qa", "trainer.max_epochs=1", "logger=csv"]
    train_in(tmp_path / "run", config("model=tiny_bert", *own))
    stored = metrics(tmp_path / "run")
    assert (stored["dev"]["queries"], stored["verdict"]["score"]) == (12, "MRR@10")
    assert stored["dev"]["mrr@10"] == pytest.approx(
        100 * slow_mrr(dev_of(tmp_path / "run"), sts_lightning.load(tmp_path / "run").encode).mean()
    )


@pytest.mark.parametrize("beside", [False, True])
def test_the_seven_tasks_before_and_after(
    beside: bool,
    rows: Path,
    config: Config,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    tables = {name: scored_pairs(30, np.random.default_rng(i)) for i, name in enumerate(SEVEN_TASKS)}
    seven = [STSTask(name, {"all": table}) for name, table in tables.items()]
    monkeypatch.setattr("sts_lightning.data.dev_and_tests.load_sts_tasks", lambda *args, **more: seven)
    own = [f"path={rows}/qa.csv", "data.keep_general=true", "trainer.max_steps=4", "optim.lr=0.01"]
    own += [f"data.test_path={rows}/other.csv"] if beside else []
    train_in(tmp_path / "run", config(*ROW_RUN, *own))
    stored = metrics(tmp_path / "run")
    names = [*SEVEN_TASKS, *(["other"] if beside else [])]
    assert list(stored["test"]["tasks"]) == names == list(stored["test_untuned"]["tasks"])
    general = stored["general"]
    assert (general["score"], general["units"]) == ("Spearman", "the seven STS tasks")
    assert general["before"] == pytest.approx(stored["test_untuned"]["average"])
    assert general["after"] == pytest.approx(stored["test"]["average"])
    assert general["difference"] == pytest.approx(general["after"] - general["before"])
    assert caplog.messages[-2:] == [in_words(stored["verdict"]), in_words(general)]
    page = html.unescape((tmp_path / "run" / "report.html").read_text())
    assert in_words(general) in page
    assert RunFolder(tmp_path / "run").metrics().score == stored["dev"]["mrr@10"]


def test_two_processes_hold_out_and_score_the_same(
    rows: Path, config: Config, cli: Callable[..., Any], tmp_path: Path
) -> None:
    own = [*ROW_RUN, f"path={rows}/qa.csv", "name=run", "model.dropout=0", "trainer.max_steps=4"]
    train_in(tmp_path / "one", config(*own))
    several = ["trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2", "trainer.chunk_tokens=512"]
    done = cli("train.py", *own, *several, "hydra.run.dir=two")
    assert done.returncode == 0, done.stderr
    one, two = metrics(tmp_path / "one"), metrics(tmp_path / "two")
    assert two["content"]["dev"] == one["content"]["dev"]
    assert two["dev_untuned"] == pytest.approx(one["dev_untuned"], abs=1e-3)
    assert two["dev"] == pytest.approx(one["dev"], abs=0.5)
    found = load_dev(RunFolder(tmp_path / "two"))
    np.testing.assert_allclose(
        found["untuned"][1]["mrr@10"],  # type: ignore[call-overload]
        load_dev(RunFolder(tmp_path / "one"))["untuned"][1]["mrr@10"],  # type: ignore[call-overload]
    )
    assert done.stdout.count("held-out queries") == 1


def test_texts_with_classes(rows: Path, config: Config, tmp_path: Path) -> None:
    """The nearest training text decides: accuracy@1 of the report is that of a slow search."""
    kinds = {"a": "a bicycle", "b": "an old clock", "c": "the harbour", "d": "a wooden boat"}
    lines = [f"{text} number {i},{name}\n" for i in range(20) for name, text in kinds.items()]
    (tmp_path / "x.csv").write_text("text,label\n" + "".join(lines))
    (tmp_path / "test.csv").write_text("text,label\nold clock,b\nboat,d\n")
    own = ["data=labels_file", f"path={tmp_path}/x.csv", f"data.test_path={tmp_path}/test.csv"]
    settings = [each for each in ROW_RUN if each != "data=triplets_file"]
    train_in(tmp_path / "run", config(*settings, *own, "trainer.max_steps=4"))
    stored, encode = metrics(tmp_path / "run"), sts_lightning.load(tmp_path / "run").encode
    data = make_data(RunFolder(tmp_path / "run").load_config())
    data.setup()
    train: Any = data.train
    texts, names = list(train["sentence1"]), list(train["class"])

    def nearest(queries: list[str]) -> list[str]:
        found = encode(texts, prompt="document"), encode(queries, prompt="query")
        unit = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in found]
        return [names[place] for place in (unit[1] @ unit[0].T).argmax(axis=1)]

    label = {text.rpartition(",")[0]: text.strip().rpartition(",")[2] for text in lines}
    queries = list(data.dev.queries)
    correct = np.mean([label[q] == name for q, name in zip(queries, nearest(queries), strict=True)])
    assert (len(queries), len(texts)) == (8, 72)
    assert stored["dev"]["accuracy@1"] == pytest.approx(100 * correct)
    correct = np.mean([a == b for a, b in zip(nearest(["old clock", "boat"]), "bd", strict=True)])
    assert stored["test"]["tasks"]["test"]["accuracy@1"] == pytest.approx(100 * correct)
    assert stored["test"]["tasks"]["test"]["candidates"] == 72
    cfg = config(f"ckpt={tmp_path}/run", "accelerator=cpu", f"test={tmp_path}/x.csv", of="eval")
    evaluate_in(tmp_path / "eval", cfg)
    entry = metrics(tmp_path / "eval")["test"]["tasks"]["x"]
    assert (entry["queries"], entry["candidates"]) == (80, 80)


def test_a_folder_of_beir_is_ranked(trained: Path, config: Config, tmp_path: Path) -> None:
    folder = tmp_path / "mini"
    (folder / "qrels").mkdir(parents=True)
    (folder / "queries.jsonl").write_text('{"_id": "1", "text": "a rug"}\n{"_id": "2", "text": "a bike"}\n')
    documents = [("x", "A", "carpet"), ("y", "", "a bicycle"), ("z", "The", "lake")]
    (folder / "corpus.jsonl").write_text(
        "".join(
            json.dumps({"_id": name, "title": title, "text": text}) + "\n" for name, title, text in documents
        )
    )
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\tx\t1\n2\ty\t1\n2\tz\t0\n")
    cfg = config(f"ckpt={trained}", "accelerator=cpu", f"test={folder}", of="eval")
    evaluate_in(tmp_path / "eval", cfg)
    encode = sts_lightning.load(trained).encode
    queries = encode(["a rug", "a bike"], prompt="query")
    texts = encode(["A carpet", "a bicycle", "The lake"], prompt="document")
    unit = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in (queries, texts)]
    order = (-unit[0] @ unit[1].T).argsort(axis=1)
    expected = [100 / (1 + order[row].tolist().index(row)) for row in range(2)]
    entry = metrics(tmp_path / "eval")["test"]["tasks"]["mini"]
    assert entry["mrr@10"] == pytest.approx(np.mean(expected))
    assert (entry["queries"], entry["candidates"]) == (2, 3)


def test_prompts_by_role_are_in_the_ranking(rows: Path, config: Config, tmp_path: Path) -> None:
    prompts = ["prompt.query='find: '", "prompt.document='here is a text: '"]
    own = [f"path={rows}/qa.csv", *prompts, "trainer.max_steps=3", "trainer.select_untuned=true"]
    train_in(tmp_path / "run", config(*ROW_RUN, *own))
    run, dev = RunFolder(tmp_path / "run"), dev_of(tmp_path / "run")
    encode = sts_lightning.load(run.path).encode
    logged = {row["step"]: row["dev/mrr@10"] for row in run.history() if "dev/mrr@10" in row}
    best = metrics(run.path)["best_step"]
    expected = 100 * slow_mrr(dev, encode).mean()
    assert metrics(run.path)["dev"]["mrr@10"] == pytest.approx(expected)
    assert logged[best] == pytest.approx(expected, abs=1e-4)
    without = 100 * slow_mrr(dev, lambda texts, prompt: encode(texts)).mean()
    assert without != pytest.approx(expected)  # the prompts make a difference
