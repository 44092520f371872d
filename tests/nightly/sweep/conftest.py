from tests.unit.sweep.conftest import script as script
from tests.unit.sweep.conftest import slurm as slurm
