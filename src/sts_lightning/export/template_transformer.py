"""Module for sentence-transformers that puts a template around each sentence.

`sts-lightning export --format sentence-transformers` copies this file into the exported folder, which
therefore loads without this project; it must not import anything from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from sentence_transformers.base.modules import Transformer


class TemplateTransformer(Transformer):
    """Transformer that embeds sentences in a template; it truncates long sentences, never the template.

    Args:
        model_name_or_path: Folder of the model.
        template: Text with the slot ``{sentence}``.
        sentence_tokens: Maximum number of tokens of the bare sentence; None where ``max_seq_length``
            truncates the row, which ends with the sentence, or for no limit.
        edit: Edit of sentences: ``none``; ``prompt_bert``, a final period; ``official``, which replaces
            double quotes and a final question mark too.
        read_mask: Whether the vector is that of the template's last mask token; the next module must be mean
            pooling.
        **kwargs: Further arguments of `Transformer`.
    """

    config_keys: list[str] = [*Transformer.config_keys, "template", "sentence_tokens", "edit", "read_mask"]

    def __init__(
        self,
        model_name_or_path: str,
        *,
        template: str = "{sentence}",
        sentence_tokens: int | None = 128,
        edit: str = "none",
        read_mask: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(model_name_or_path, **kwargs)
        self.template = template
        self.sentence_tokens = sentence_tokens
        self.edit = edit
        self.read_mask = read_mask

    def preprocess(
        self, inputs: Sequence[Any], prompt: str | None = None, processing_kwargs: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Tokenise sentences in the template; a prompt is put before the sentence."""
        prefix, suffix = self.template.split("{sentence}")
        texts = [prefix + self._truncated((prompt or "") + self._edited(text)) + suffix for text in inputs]
        return super().preprocess(texts, processing_kwargs=processing_kwargs, **kwargs)

    def _edited(self, text: str) -> str:
        if self.edit == "none" or not text:
            return text
        if text[-1] not in ".?\"'":
            text += "."
        if self.edit == "prompt_bert":
            return text
        text = text.replace('"', "'")
        return f"{text[:-1]}." if text.endswith("?") else text

    def _truncated(self, text: str) -> str:
        if self.sentence_tokens is None:
            return text
        assert self.tokenizer is not None
        spans = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        if len(spans) <= self.sentence_tokens:
            return text
        (start, stop), (following, _) = spans[self.sentence_tokens - 1 : self.sentence_tokens + 1]
        # A character may be several tokens of the same span: it stays whole, or leaves.
        return text[: stop if stop <= following else start]

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Run the model; with ``read_mask`` only the template's last mask token is visible to the pooling."""
        features = super().forward(features, **kwargs)
        if self.read_mask:
            assert self.tokenizer is not None
            mask = self.tokenizer.mask_token
            count = features["input_ids"].eq(self.tokenizer.mask_token_id).cumsum(dim=1)
            prefix, suffix = self.template.split("{sentence}")
            # A sentence may contain masks too: after those of the prefix, before those of the suffix.
            last = count[:, -1:] if mask in suffix else prefix.count(mask)
            position = count.eq(last).int().argmax(dim=1, keepdim=True)
            features["attention_mask"] = torch.zeros_like(features["attention_mask"]).scatter(1, position, 1)
        return features
