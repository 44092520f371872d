"""From files to tables to batches; knows nothing of models or losses."""
