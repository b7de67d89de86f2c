import pytest
from hypothesis import settings

# Helpers that assert on behalf of a test: their failures should show values, like the test's own.
pytest.register_assert_rewrite("kernel_contract")

settings.register_profile("kernmend", derandomize=True, deadline=None, max_examples=25, database=None)
settings.load_profile("kernmend")
