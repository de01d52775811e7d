"""Edge probes (Tenney et al. 2019)."""
