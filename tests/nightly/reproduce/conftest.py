from tests.unit.reproduce.conftest import scores as scores
from tests.unit.reproduce.conftest import table as table
