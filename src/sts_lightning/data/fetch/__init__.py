"""The published data: its sources, how it is fetched and checked, and which parts of it a data root has."""
