"""Content-addressed store on disk, and the formats of its files."""
