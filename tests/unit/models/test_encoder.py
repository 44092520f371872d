from __future__ import annotations

import pickle
from typing import Any, get_args

import numpy as np
import pytest
import torch
from peft import PrefixTuningConfig
from transformers import RobertaConfig, RobertaModel

from sts_lightning.core.choices import Denoise, Frozen, Role
from sts_lightning.models.encoder import SentenceEncoder, freeze
from sts_lightning.models.pooling import Pooling
from sts_lightning.testing.tiny_bert import character_tokenizer, tiny_bert
from sts_lightning.testing.tiny_decoders import tiny_llama, tiny_mistral
from tests.support.decoders import TEMPLATE, decoder
from tests.support.sentences import SENTENCES


def gradients(encoder: SentenceEncoder, chunk_tokens: int) -> dict[str, torch.Tensor]:
    encoder.zero_grad()
    vectors = encoder(encoder.tokenizer.rows(SENTENCES, chunk_tokens))
    (vectors * torch.arange(vectors.numel()).reshape(vectors.shape).cos()).sum().backward()
    return {name: p.grad.clone() for name, p in encoder.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("pooling", get_args(Pooling))
def test_chunked_vectors_and_gradients_equal_unchunked_ones(pooling: Pooling) -> None:
    template = "{sentence} is {mask}" if pooling == "mask_token" else None
    encoder = tiny_bert(dropout=0.0, pooling=pooling, template=template)
    one, many = (encoder(encoder.tokenizer.rows(SENTENCES, budget)) for budget in (10**6, 40))
    torch.testing.assert_close(one, many, atol=1e-6, rtol=1e-5)
    whole, chunked = gradients(encoder, 10**6), gradients(encoder, 40)
    assert whole.keys() == chunked.keys()
    for name, gradient in whole.items():
        torch.testing.assert_close(chunked[name], gradient, atol=1e-5, rtol=1e-4)


def test_encode_edge_cases(encoder: SentenceEncoder) -> None:
    assert encoder.encode([]).shape == (0, 32)
    with pytest.raises(TypeError, match="list of sentences"):
        encoder.encode("one string")


def test_vectors_of_length_1_and_cosines() -> None:
    encoder, unit = tiny_bert(dropout=0.0), tiny_bert(dropout=0.0, normalize=True)
    plain = encoder.encode(SENTENCES)
    scaled = plain / np.linalg.norm(plain, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode(SENTENCES, normalize=True), scaled, atol=1e-6)
    np.testing.assert_allclose(unit.encode(SENTENCES), scaled, atol=1e-6)
    rows = unit.tokenizer.rows(SENTENCES, 512)
    np.testing.assert_allclose(unit.train()(rows).detach().numpy(), scaled, atol=1e-6)
    np.testing.assert_allclose(encoder.similarity(plain), scaled @ scaled.T, atol=1e-6)
    others = np.concatenate([plain[:2], np.zeros_like(plain[:1])])
    cosines = encoder.similarity(plain, others)
    np.testing.assert_allclose(cosines[:, :2], scaled @ scaled[:2].T, atol=1e-6)
    assert (cosines[:, 2] == 0).all()


@pytest.mark.parametrize("normalize", [False, True])
def test_first_values(normalize: bool) -> None:
    plain = tiny_bert(dropout=0.0).encode(SENTENCES)
    encoder = tiny_bert(dropout=0.0, normalize=normalize)
    first = plain[:, :5]
    unit = first / np.linalg.norm(first, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode(SENTENCES, dim=5), unit if normalize else first, atol=1e-6)
    np.testing.assert_allclose(encoder.encode(SENTENCES, dim=5, normalize=True), unit, atol=1e-6)
    np.testing.assert_array_equal(encoder.encode(SENTENCES, dim=32), encoder.encode(SENTENCES))
    assert encoder.encode([], dim=5).shape == (0, 5)
    for dim in (0, 33):
        with pytest.raises(ValueError, match=f"between 1 and 32, the size of a vector, got {dim}"):
            encoder.encode(SENTENCES, dim=dim)


def test_an_encoder_of_the_first_values_trains_on_them_alone() -> None:
    whole = tiny_bert(dropout=0.0)
    encoder = SentenceEncoder(whole.plain_backbone, whole.tokenizer.tokenizer, truncate_dim=5).train()
    vectors = encoder(encoder.tokenizer.rows(SENTENCES, 512))
    np.testing.assert_allclose(vectors.detach().numpy(), whole.encode(SENTENCES)[:, :5], atol=1e-6)
    assert encoder.dimension == encoder.encode([]).shape[1] == 5


def test_projection_of_training_alone_is_dropped_in_evaluation() -> None:
    encoders = {kind: tiny_bert(dropout=0.0, projection=kind) for kind in ("train", "always")}
    bare = tiny_bert(dropout=0.0).encode(SENTENCES)
    for kind, encoder in encoders.items():
        rows = encoder.tokenizer.rows(SENTENCES, 512)
        projected = encoder.projector(torch.from_numpy(bare))
        torch.testing.assert_close(encoder.train()(rows), projected, atol=1e-5, rtol=1e-4)
        expected = projected.detach().numpy() if kind == "always" else bare
        np.testing.assert_allclose(encoder.encode(SENTENCES), expected, atol=1e-5)
        assert encoder.training


@pytest.mark.parametrize("template", ['of "{sentence}" is {mask}.', '{mask} is "{sentence}".'])
@pytest.mark.parametrize("denoise", ["shift", "pad"])
def test_denoising_subtracts_the_bare_template(denoise: Denoise, template: str) -> None:
    encoder = tiny_bert(dropout=0.0, pooling="mask_token", template=template, denoise=denoise).eval()
    sentences = ["abc", "x"]
    found = encoder(encoder.prepare(512, training=True)([sentences], [None]))
    mask, pad = encoder.tokenizer.tokenizer.mask_token_id, encoder.tokenizer.tokenizer.pad_token_id
    for row, sentence in enumerate(sentences):
        (ids,) = encoder.tokenizer([sentence])
        start, length = ids.index(encoder.tokenizer.tokenizer('"')["input_ids"][1]) + 1, len(sentence)
        if denoise == "shift":
            bare = ids[:start] + ids[start + length :]
            positions = [*range(start), *range(start + length, len(ids))]
        else:
            bare, positions = ids[:start] + [pad] * length + ids[start + length :], list(range(len(ids)))
        with torch.no_grad():
            whole = encoder.backbone(torch.tensor([ids])).last_hidden_state[0, ids.index(mask)]
            alone = encoder.backbone(
                torch.tensor([bare]), position_ids=torch.tensor([positions])
            ).last_hidden_state[0, bare.index(mask)]
        torch.testing.assert_close(found[row], whole - alone, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("template", "at"), [("{mask} is {sentence} .", 1), ("{mask} {sentence} {mask} .", -3)]
)
def test_the_mask_of_the_template_is_pooled_whatever_the_sentence_holds(template: str, at: int) -> None:
    """Between [CLS] and [SEP], in views with templates of their own, in chunks of several rows."""
    views = {template: at, "so {sentence} is {mask}": -2}
    encoder = tiny_bert(dropout=0.0, pooling="mask_token", template=template, view_templates=list(views))
    sentences = ["abc", "a [MASK] b [MASK]", "x"]
    expected = []
    for one, position in views.items():
        text = one.replace("{mask}", "[MASK]")
        for sentence in sentences:
            ids = encoder.tokenizer.tokenizer(text.replace("{sentence}", sentence), return_tensors="pt")
            with torch.no_grad():
                expected.append(encoder.backbone(**ids).last_hidden_state[0, position])
    for chunk_tokens in (1, 20, 512):
        rows = encoder.prepare(chunk_tokens, training=True)([sentences, sentences], [None, None])
        torch.testing.assert_close(encoder(rows).detach(), torch.stack(expected), atol=1e-5, rtol=1e-4)
    np.testing.assert_allclose(encoder.encode(sentences), torch.stack(expected[:3]).numpy(), atol=1e-5)


def test_evaluation_is_denoised_only_if_asked() -> None:
    settings: dict[str, Any] = {"template": "{sentence} is {mask}", "pooling": "mask_token", "dropout": 0.0}
    plain = tiny_bert(**settings)
    kept = tiny_bert(**settings, denoise="shift")
    subtracted = tiny_bert(**settings, denoise="shift", denoise_evaluation=True)
    np.testing.assert_array_equal(plain.encode(SENTENCES), kept.encode(SENTENCES))
    rows = subtracted.prepare(512, training=True)([SENTENCES], [None])
    expected = subtracted.eval()(rows).detach().numpy()
    np.testing.assert_allclose(subtracted.encode(SENTENCES), expected, atol=1e-5)
    assert not np.allclose(expected, plain.encode(SENTENCES))


def test_denoised_gradient_flows_through_both_parts() -> None:
    encoder = tiny_bert(dropout=0.0, template="{sentence} is {mask}", pooling="mask_token", denoise="shift")
    rows = encoder.prepare(512, training=True)([["abc"]], [None])
    vectors = encoder(rows)
    (vectors * torch.arange(32).cos()).sum().backward()  # the plain sum of a normalised vector is constant
    table = encoder.backbone.get_input_embeddings().weight.grad
    assert table is not None
    bare = tiny_bert(dropout=0.0, template="{sentence} is {mask}", pooling="mask_token", denoise="shift")
    fixed = bare(rows).detach()
    difference = (vectors - fixed).abs().max()
    assert difference < 1e-5
    whole = bare.tokenizer.rows(["abc"], 512)
    (bare(whole) * torch.arange(32).cos()).sum().backward()
    alone = bare.backbone.get_input_embeddings().weight.grad
    assert alone is not None
    # The sentence's own words stand in one of the two rows, the template's in both.
    words, template = whole.chunks[0]["input_ids"][0, 1:4], whole.chunks[0]["input_ids"][0, 4:]
    torch.testing.assert_close(table[words], alone[words], atol=1e-6, rtol=1e-3)
    assert not torch.allclose(table[template], alone[template], atol=1e-6, rtol=1e-3)


def test_positions_of_robertas_family_start_behind_the_padding_index() -> None:
    tokenizer = character_tokenizer()
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = RobertaConfig(vocab_size=len(tokenizer), **sizes)
    backbone = RobertaModel(config, add_pooling_layer=False)
    encoder = SentenceEncoder(backbone, tokenizer, max_length=16, template="{sentence} .", denoise="shift")
    assert encoder.tokenizer.position_offset == config.pad_token_id + 1


def test_prefix_tuning_trains_the_prefix_alone() -> None:
    adapter = PrefixTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=4)
    encoder = tiny_bert(dropout=0.0, adapter=adapter)
    trained = {name: p.numel() for name, p in encoder.named_parameters() if p.requires_grad}
    assert list(trained.values()) == [4 * 2 * 2 * 32]  # positions x (key, value) x layers x hidden size
    rows = encoder.tokenizer.rows(SENTENCES, 40)
    encoder(rows).square().sum().backward()
    (gradient,) = [p.grad for p in encoder.parameters() if p.grad is not None]
    assert gradient.abs().sum() > 0
    one, many = (encoder(encoder.tokenizer.rows(SENTENCES, budget)) for budget in (10**6, 40))
    torch.testing.assert_close(one, many, atol=1e-5, rtol=1e-4)
    assert not np.allclose(encoder.encode(SENTENCES), tiny_bert(dropout=0.0).encode(SENTENCES), atol=1e-4)


def test_the_layer_below_the_last() -> None:
    encoder = decoder(tiny_mistral, layer=-2)
    ids = encoder.tokenizer.tokenizer(TEMPLATE.replace("{sentence}", "A dog"), return_tensors="pt")
    with torch.no_grad():
        expected = encoder.backbone(**ids, output_hidden_states=True).hidden_states[-2][0, -1]
    np.testing.assert_allclose(encoder.encode(["A dog"])[0], expected.numpy(), atol=2e-6)
    both = encoder.encode(["A dog", "Some cats sleep"])
    np.testing.assert_allclose(both[0], expected.numpy(), atol=2e-6)


def test_what_tokenises_a_batch_can_be_sent_to_a_worker_process_without_the_weights() -> None:
    encoder = tiny_bert()
    for training in (True, False):
        prepare = encoder.prepare(64, training)
        sent = pickle.dumps(prepare)
        assert len(sent) < 100_000
        views = [["a dog", "two men"], ["x", "someone plays"]]
        here, there = prepare(views, [None, None]), pickle.loads(sent)(views, [None, None])
        assert [chunk["input_ids"].tolist() for chunk in here.chunks] == [
            chunk["input_ids"].tolist() for chunk in there.chunks
        ]


@pytest.mark.parametrize(("frozen", "trains"), [("none", True), ("encoder", False)])
def test_a_frozen_encoder_has_no_weights_that_train(frozen: Frozen, trains: bool) -> None:
    assert all(weight.requires_grad == trains for weight in freeze(tiny_bert(), frozen).parameters())


def test_vectors_of_a_role_are_those_of_its_prefix() -> None:
    """By `encode` and in batches of evaluation; a role without a prompt has the template."""
    encoder = tiny_bert(template="t: {sentence}", query="query: ")
    prefixes: dict[Role | None, str] = {None: "t: ", "query": "query: ", "document": "t: "}
    for role, template in prefixes.items():
        expected = tiny_bert(template=f"{template}{{sentence}}").encode(SENTENCES)
        np.testing.assert_allclose(encoder.encode(SENTENCES, prompt=role), expected, atol=1e-6)
        rows = encoder.prepare(512, training=False)([SENTENCES], [None], role=role)
        np.testing.assert_allclose(encoder(rows).detach().numpy(), expected, atol=1e-6)
    with pytest.raises(ValueError, match="prompt must be one of query, document"):
        encoder.encode([], prompt="passage")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^query has no mask token"):
        tiny_bert(template="{mask} {sentence}", pooling="mask_token", query="query: ")


def test_a_shared_prefix_is_that_of_the_role() -> None:
    """A causal model computes the common beginning of the rows once."""
    encoder = tiny_llama(pooling="last_token", query="query : ", document="passage : ")
    for role in get_args(Role):
        shared, whole = (
            encoder.encode(SENTENCES, prompt=role, share_prefix=share) for share in (True, False)
        )
        np.testing.assert_allclose(shared, whole, atol=1e-5)
