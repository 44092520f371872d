"""Run folders: every file name, and what is read and written there."""
