"""The published data: where it comes from, how it is fetched and checked, and which parts are there."""
