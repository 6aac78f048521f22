"""Terms of the surfaces in which loops are a variable: effective parameters in place of FLOPs.

Each function takes coordinates (logs of levels and scales) and the variables of the points, and returns both
log terms with their exact slopes, as `form.Surface` asks; a `_slice` takes coefficients and holds all but F
and D. All are analytic, so that complex steps through them are exact.
"""

import numpy as np

from smelt.surfaces.form import LogTerms, Named, SliceFactors
from smelt.surfaces.points import Array

BILLION = 1e9


def depth_terms(at: Named, variables: Named) -> LogTerms:
    """L = E + A (N_once + r^phi N_rec)^-a + K D^-c, r being the visits (iso-depth law, arXiv 2604.21106)."""
    size, by_phi = _depth(at["phi"], variables)
    log_tokens = np.log(variables["tokens"])
    capacity = at["A"] - at["a"] * size
    data = at["K"] - at["c"] * log_tokens
    return (capacity, {"a": -size, "phi": -at["a"] * by_phi}), (data, {"c": -log_tokens})


def depth_slice(values: Named, variables: Named) -> SliceFactors:
    """Effective parameters as a multiple of F, the same at every size."""
    size, _ = _depth(values["phi"][..., None], variables)
    ratio = np.mean(size - np.log(variables["flops"]), axis=-1)
    return np.exp(-values["a"] * ratio), np.ones(()), values["a"], values["c"]


def _depth(phi: Array, variables: Named) -> tuple[Array, Array]:
    """log of the effective parameters, and its slope in phi."""
    log_visits = np.log(variables["visits"])
    looped = variables["looped_params"] * np.exp(phi * log_visits)
    size = variables["active_params"] - variables["looped_params"] + looped
    return np.log(size), log_visits * looped / size


def moe_terms(at: Named, variables: Named) -> LogTerms:
    """The joint law of arXiv 2609.40316, N and D in billions:

    L = E + A e^A_expansion N_eff^-(a - a_expansion log e) + K e^K_expansion D^-(c - c_expansion log e)

    with e the saturating expansion, N_eff = N + kappa1 m^-theta N_rec (1 - exp(-(r-1) / (kappa2 m^-theta))),
    and m the active share of all parameters.
    """
    expert, by_expert = _expansion(at, variables)
    size, by_size = _effective(at, variables)
    log_tokens = np.log(variables["tokens"] / BILLION)
    a, c = at["a"] - at["a_expansion"] * expert, at["c"] - at["c_expansion"] * expert
    capacity = at["A"] + at["A_expansion"] * expert - a * size
    data = at["K"] + at["K_expansion"] * expert - c * log_tokens
    first = {"a": -size, "A_expansion": expert, "a_expansion": expert * size}
    first |= {name: -a * slope for name, slope in by_size.items()}
    in_first, in_second = (
        at["A_expansion"] + at["a_expansion"] * size,
        at["K_expansion"] + at["c_expansion"] * log_tokens,
    )
    first |= {name: in_first * slope for name, slope in by_expert.items()}
    second = {"c": -log_tokens, "K_expansion": expert, "c_expansion": expert * log_tokens}
    second |= {name: in_second * slope for name, slope in by_expert.items()}
    return (capacity, first), (data, second)


def moe_slice(values: Named, variables: Named) -> SliceFactors:
    """Effective parameters as a multiple of F, and the expansion, both at their geometric means."""
    at = {name: value[..., None] for name, value in values.items()}
    at |= {name: np.log(at[name]) for name in ("kappa1", "kappa2", "expansion_start", "expansion_max")}
    expert = np.mean(_expansion(at, variables)[0], axis=-1)
    ratio = np.mean(_effective(at, variables)[0] - np.log(variables["flops"]), axis=-1)
    a = values["a"] - values["a_expansion"] * expert
    c = values["c"] - values["c_expansion"] * expert
    capacity = np.exp(values["A_expansion"] * expert - a * ratio)
    data = np.exp(values["K_expansion"] * expert + c * np.log(BILLION))
    return capacity, data, a, c


def _expansion(at: Named, variables: Named) -> tuple[Array, Named]:
    """log of the saturating expansion e, 1/e = 1/(X - 1 + 1/(1/start - 1/max)) + 1/max, and its slopes."""
    low, high = np.exp(-at["expansion_start"]), np.exp(-at["expansion_max"])
    offset = 1 / (low - high)
    inverse = 1 / (variables["expansion"] - 1 + offset)
    share = inverse + high
    turn = (inverse * offset) ** 2 / share  # d log e / d (1/start), up to sign
    return -np.log(share), {"expansion_start": turn * low, "expansion_max": (1 / share - turn) * high}


def _effective(at: Named, variables: Named) -> tuple[Array, Named]:
    """log of the effective parameters in billions, and its slopes."""
    active = np.log(variables["active_params"] / variables["params"])
    kappa1 = np.exp(at["kappa1"] - at["theta"] * active)
    kappa2 = np.exp(at["kappa2"] - at["theta"] * active)
    passes = (variables["visits"] - 1) / kappa2
    left = np.exp(-passes)
    most = kappa1 * variables["looped_params"]
    size = variables["active_params"] + most * (1 - left)
    by_first, by_second = most * (1 - left) / size, -most * left * passes / size
    slopes = {"kappa1": by_first, "kappa2": by_second, "theta": -active * (by_first + by_second)}
    return np.log(size / BILLION), slopes
