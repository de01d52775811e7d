"""Small encoders that differ in their pretraining objective: designs, pretraining, evaluation and cards."""
