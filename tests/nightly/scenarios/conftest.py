from tests.runs.conftest import uninterrupted as uninterrupted
