"""What has a place on disk, and in which form."""
