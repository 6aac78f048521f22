"""The loss surfaces that can be fitted, one object each; to add one, add an object.

`log_linear` makes a surface from data alone where both terms are products of powers. Any other takes two
functions: `terms` gives the logs of both terms and their slopes, `slice_factors` what they are with all but F and D
fixed (see `form.Surface`).
"""

from smelt.surfaces.form import LEVELS, Design, Parameter, Surface, log_linear
from smelt.surfaces.looped import depth_slice, depth_terms, moe_slice, moe_terms

__all__ = ["CHINCHILLA", "LEVELS", "LOOPED_DEPTH", "LOOPED_MOE", "SMELT", "SURFACES", "Design", "Surface"]

STEEPER = ((1.8, 0.0), (0.6, 0.0))  # where the other starts of a draw begin
FLATTER = ((1.0, 0.4), (1.0, -0.1))
E = Parameter("E", "irreducible loss, nats", log=True)
A = Parameter("A", "level of the capacity term, nats (FLOPs per token)^a", log=True)
K = Parameter("K", "level of the data term, nats tokens^c", log=True)
EXPONENT_A = Parameter("a", "exponent of F", (0, 4), (0.05, 1.0), moves=STEEPER)
EXPONENT_B = Parameter("b", "exponent of 1 - S", (-3, 3), (-0.2, 0.6), varies="active", moves=FLATTER)
EXPONENT_C = Parameter("c", "exponent of D", (0, 4), (0.05, 1.2))


def _of_expansion(name: str, unit: str, starts: tuple[float, float]) -> Parameter:
    return Parameter(name, unit, (-3, 3), starts, varies="expansion")


def _scale(
    name: str,
    unit: str,
    bounds: tuple[float, float],
    starts: tuple[float, float],
    varies: str,
    rest: float,
    least: int = 2,
) -> Parameter:
    """A positive coefficient; bounds and starts are those of its log."""
    return Parameter(name, unit, bounds, starts, log=True, varies=varies, rest=rest, least=least)


# Eq. 2: L = E + A (1-S)^b / F^a + K / D^c.
SMELT = log_linear(
    "smelt",
    (E, A, K, EXPONENT_A, EXPONENT_B, EXPONENT_C),
    capacity={"a": ("flops", -1), "b": ("active", 1)},
    data={"c": ("tokens", -1)},
    formula="E + A(1−S)ᵇ/Fᵃ + K/Dᶜ",
)
# L = E + A / F^a + K / D^c, or with parameters in place of F where the endpoints have no F.
CHINCHILLA = log_linear(
    "chinchilla",
    (E, A, K, EXPONENT_A, EXPONENT_C),
    capacity={"a": ("flops|params", -1)},
    data={"c": ("tokens", -1)},
    formula="E + A/Fᵃ + K/Dᶜ",
)
LOOPED_DEPTH = Surface(
    "looped_depth",
    (
        E,
        A._replace(unit="level of the capacity term, nats parameters^a"),
        K,
        EXPONENT_A._replace(unit="exponent of the effective parameters"),
        EXPONENT_C,
        Parameter("phi", "exponent of the visits: 0 if loops add nothing", (-2, 4), (0, 1), varies="visits"),
    ),
    ("flops", "tokens", "active_params", "looped_params", "visits"),
    depth_terms,
    depth_slice,
    formula="E + A/(N_once + r^φ N_rec)ᵃ + K/Dᶜ",
    shared=True,
)
LOOPED_MOE = Surface(
    "looped_moe",
    (
        E,
        A._replace(unit="level of the capacity term, nats (10^9 effective parameters)^a"),
        K._replace(unit="level of the data term, nats (10^9 tokens)^c"),
        Parameter("a", "exponent of the effective parameters at one expert", (-1, 4), (0.05, 0.5), moves=STEEPER),
        Parameter("c", "exponent of D at one expert", (-1, 4), (0.2, 1.0)),
        _of_expansion("A_expansion", "exponent of the saturating expansion in the capacity term", (-0.4, 0.2)),
        _of_expansion("a_expansion", "change of the capacity exponent with log expansion", (-0.05, 0.05)),
        _of_expansion("K_expansion", "exponent of the saturating expansion in the data term", (-0.4, 0.2)),
        _of_expansion("c_expansion", "change of the data exponent with log expansion", (-0.05, 0.1)),
        _scale("kappa1", "most that loops add, per looped parameter", (-7, 4), (-2, 0.5), "visits", 1.0),
        _scale("kappa2", "visits in which that is approached", (-3, 5), (-0.5, 1), "visits", 1.0, 3),
        Parameter("theta", "exponent by which sparsity raises kappa1 and kappa2", (-2, 3), (0, 0.6), varies="visits"),
        _scale("expansion_start", "saturating expansion at one expert", (0, 2.5), (0.1, 1), "expansion", 1.5),
        _scale("expansion_max", "saturating expansion at very many experts", (2.6, 9), (3.5, 5), "expansion", 64.0),
    ),
    ("flops", "tokens", "params", "active_params", "looped_params", "visits", "expansion"),
    moe_terms,
    moe_slice,
    formula="E + A eᵖ/N_effᵃ + K e^q/Dᶜ, a and c linear in ln e",
    shared=True,
)
SURFACES = {surface.name: surface for surface in (SMELT, CHINCHILLA, LOOPED_DEPTH, LOOPED_MOE)}
