from tests.unit.workflows.conftest import no_weights as no_weights
