"""What is a model asked to do? Tasks, their data in its original form, and their scores."""
