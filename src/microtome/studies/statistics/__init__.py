"""Statistics of studies: from the results of an experiment to one quantity with an interval."""
