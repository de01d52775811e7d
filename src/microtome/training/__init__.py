"""Fine-tuning of encoders on tasks, and evaluation of the fine-tuned models."""
