from tests.unit.data.conftest import root as root
