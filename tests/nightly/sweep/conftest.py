from tests.unit.sweep.conftest import script as script
