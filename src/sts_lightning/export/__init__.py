"""Export of runs to other libraries: peft, transformers, sentence-transformers and onnxruntime."""
