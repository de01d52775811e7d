"""Where calls run: in processes, on Slurm, on Ray; they are JSON, and the store keeps what they make."""
