"""Random references for property tests."""

from hypothesis import strategies as st

from smelt.model.settings import ModelSettings


@st.composite
def references(draw: st.DrawFn, largest: int = 32) -> ModelSettings:
    """An unlooped network of up to 8 x `largest` hidden units."""
    kv_heads = draw(st.integers(1, 4))
    hidden_size = 8 * draw(st.integers(2, largest))
    return ModelSettings(
        vocabulary=512,
        layers=draw(st.integers(2, 12)),
        hidden_size=hidden_size,
        heads=kv_heads * draw(st.integers(1, 4)),
        kv_heads=kv_heads,
        head_size=2 * draw(st.integers(4, 32)),
        experts=draw(st.integers(8, 400)),
        expert_width=max(8, 8 * round(hidden_size * draw(st.floats(0.5, 2)) / 8)),
        shared_width=draw(st.sampled_from([0, 0, 16])),
    )
