"""Logistic regression for the layers of an encoder, fitted together."""
