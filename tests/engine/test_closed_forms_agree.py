"""The engine's closed form and the analysis's are written apart, and say the same."""

from hypothesis import given
from hypothesis import strategies as st

from engine.memory import MODEL_STATES, ModelSize, closed_form
from probe.analyse.theory.model_states import Partition, model_states
from probe.schema.vocabulary import Precision, Tier


@given(
    stage=st.integers(0, 3),
    world=st.integers(1, 64),
    precision=st.sampled_from(Precision),
    trained=st.integers(1, 10**11),
    frozen=st.integers(0, 10**11),
    moments=st.integers(0, 2),
)
def test_model_states_of_both_rooms_agree_to_the_padding(
    stage, world, precision, trained, frozen, moments
):
    partition = Partition(stage=stage, precision=precision, world=world)
    theory = model_states(trained, partition, states_per_param=moments, frozen_elements=frozen)
    engine = closed_form(
        ModelSize(
            stage=stage,
            world=world,
            trained_elements=trained,
            frozen_elements=frozen,
            weight_bytes=partition.weight_bytes,
            moments=moments,
        )
    )
    for category in MODEL_STATES:
        # A slice is rounded up to whole elements, of 8 bytes at the most.
        difference = theory.of(Tier.DEVICE, category) - engine[category]
        assert -0.01 < difference < 16
