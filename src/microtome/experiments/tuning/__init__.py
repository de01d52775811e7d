"""Experiments that make, score and shrink models: finetune, evaluate, prune, pretrain."""
