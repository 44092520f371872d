"""Loading of encoders; a folder is data, and nothing in it is executed without consent.

==================  =======================================================================================
run.py              `load` of a run or a model; `build_encoder` of a configuration
pipeline.py         a model with pooling, dense layers and prompts: sentence-transformers' folders, and ours
folder.py           the model folder that a run writes, and its weights as a start of training
own_file.py         sts_lightning.json in it, also as version 0.3 wrote it
backbone.py         the transformer and its tokenizer, checked; an adapter is merged into its base
meta.py             the same without weights, for checks and plans
adapters.py         LoRA and prefixes of peft: settings, weights, merging
quantization.py     4-bit and 8-bit layers of bitsandbytes
hub.py              files of a folder, of the model hub or of an installed package
checks.py           reading of tensors: names, shapes, finite values
static_embeddings   tables of word pieces
==================  =======================================================================================
"""
