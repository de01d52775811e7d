"""ELMo in plain PyTorch: the biLSTM of bilm-tf and AllenNLP, and the Transformer of AllenNLP."""
