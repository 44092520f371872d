"""Run folders: file names, readers and writers."""
