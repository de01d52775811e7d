"""Readers of text corpora from files and from the Hugging Face hub."""
