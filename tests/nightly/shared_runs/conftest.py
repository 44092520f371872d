from tests.unit.shared_runs.conftest import finished as finished
from tests.unit.shared_runs.conftest import marker as marker
from tests.unit.shared_runs.conftest import payload as payload
from tests.unit.shared_runs.conftest import run as run
