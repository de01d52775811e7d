"""Interventions on the blocks of an encoder, each applied to a copy of it."""
