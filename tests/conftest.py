"""What all tests share: how hypothesis searches."""

from hypothesis import HealthCheck, settings

# The machine may be busy, so no example is judged by its time; and what was found stays found, so
# that a change is judged by the same examples as the one before it.
settings.register_profile(
    "suite",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("suite")
