"""What a loss surface is to the fits: L = E + capacity term + data term, parameters, coordinates, a design.

A surface names its parameters and gives the logs of its two terms with their exact slopes; bounds, starts,
coordinates, objective and solvers follow from that. A fit works on coordinates theta: levels and scales as
logs, the rest plainly, and the levels taken at the mean design point (centred), since in raw logs a and log A
are all but collinear.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smelt.errors import UserError
from smelt.surfaces.frontier import Slice
from smelt.surfaces.points import Array, Points

LEVELS = ("E", "A", "K")  # the first three coefficients of every surface
Named = Mapping[str, Array]
# The logs of the capacity and the data term, each with its slopes: what d log term / d coordinate is.
LogTerms = tuple[tuple[Array, Named], tuple[Array, Named]]
SliceFactors = tuple[Array, Array, Array, Array]
Powers = Mapping[str, tuple[str, int]]


class Parameter(NamedTuple):
    """A coefficient. Bounds and starts are those of its coordinate; the levels' follow from the losses."""

    name: str
    unit: str
    bounds: tuple[float, float] = (0.0, 0.0)
    starts: tuple[float, float] = (0.0, 0.0)
    log: bool = False  # whether its coordinate is its log
    varies: str = ""  # the variable without whose variation it is fixed at `rest`
    rest: float = 0.0
    least: int = 2  # different values that this variable must have
    # Factor and shift of the second and third start of a draw. Resamples can have a second basin, at higher a
    # and b or at a lower a with E sliding down, which the start at the point fit alone would miss in some.
    moves: tuple[tuple[float, float], tuple[float, float]] = ((1, 0), (1, 0))


class TermDesign(NamedTuple):
    """Constant slopes of one log term over the coordinates that it depends on."""

    columns: NDArray[np.int64]  # those coordinates
    slopes: Array  # (points, columns)
    pairs: list[tuple[int, int]]  # of coordinates
    products: Array  # (points, pairs): slope x slope
    distinct: NDArray[np.int64]  # points whose slopes differ from one another
    group: NDArray[np.int64]  # index of each point's slopes among those of `distinct`


@dataclasses.dataclass(frozen=True)
class Design:
    """The points of one fit, and the constants of its derivatives."""

    surface: "Surface"
    variables: Named
    log_loss: Array
    lower: Array  # box of theta, generous; equal where a coefficient is fixed
    upper: Array
    centring: Array  # (P, P): raw coordinates = centring @ theta
    term_designs: tuple[TermDesign, TermDesign] | None  # of the two terms, where their slopes are constant
    cross_products: Array  # (points, columns x columns): products of the slopes of both
    hessian_map: Array  # (P x P, sums of products): where each goes in the Hessian

    @property
    def size(self) -> int:
        """How many points."""
        return int(self.log_loss.size)

    @property
    def free(self) -> NDArray[np.bool_]:
        """Which coordinates are not fixed."""
        return np.asarray(self.upper > self.lower)


@dataclasses.dataclass(frozen=True)
class Surface:
    """A surface whose terms are given by functions.

    `terms(coordinates, variables)` gives both log terms and their slopes by coordinate, levels left out of the
    slopes (theirs are 1). It must be analytic (no abs, no comparison), for second derivatives are taken with
    complex steps. `slice_factors(values, variables)` gives the factors by which A and K become those of a slice, and
    its exponents a and c.
    """

    name: str
    parameters: tuple[Parameter, ...]
    variables: tuple[str, ...]  # that every point must have
    terms: Callable[[Named, Named], LogTerms]
    slice_factors: Callable[[Named, Named], SliceFactors]
    formula: str = ""  # of the loss, as figures print it
    choices: tuple[str, ...] = ()  # "one|other": variables of which every point must have one
    shared: bool = False  # whether one surface describes all architectures together
    linear: bool = False  # whether the slopes are constant

    @property
    def coefficients(self) -> tuple[str, ...]:
        """The names of the coefficients, in the order of theta."""
        return tuple(parameter.name for parameter in self.parameters)

    @property
    def units(self) -> dict[str, str]:
        """What each coefficient means, and its unit."""
        return {parameter.name: parameter.unit for parameter in self.parameters}

    def design(self, points: Points, fixed: Mapping[str, float] | None = None) -> Design:
        """The design of some points, with the coefficients in `fixed` at their values.

        Raises UserError where the points lack a variable of the surface.
        """
        missing = [name for name in self.variables if name not in points.variables]
        missing += [one.replace("|", " or ") for one in self.choices if not set(one.split("|")) & set(points.variables)]
        if missing:
            raise UserError(
                f"scaling.surface: {self.name!r} needs {', '.join(missing)} of every endpoint of "
                f"{points.architecture}; give the columns or choose another surface"
            )
        variables = dict(points.variables)
        log_loss = np.log(points.loss)
        lower, upper = self._box(log_loss, fixed or {})
        centring = self._centring(variables, log_loss.size)
        term_designs, cross_products, hessian_map = None, np.empty((log_loss.size, 0)), np.empty((0, 0))
        if self.linear:
            first, second = term_designs = self._term_designs(variables, centring, log_loss.size)
            cross_products = np.einsum("ni,nj->nij", first.slopes, second.slopes).reshape(log_loss.size, -1)
            hessian_map = _hessian_map(len(self.parameters), first, second)
        return Design(self, variables, log_loss, lower, upper, centring, term_designs, cross_products, hessian_map)

    def fixed(self, points: Points) -> dict[str, tuple[float, str]]:
        """The coefficients that nothing in the points can determine: by name, the value each takes, and why."""
        fixed_at = {}
        for parameter in self.parameters:
            variable = parameter.varies
            if not variable or variable not in points.variables:
                continue
            # One label is one sparsity, though the measured S of its cells differ in the third digit.
            alone = variable == "active" and len(np.unique(points.sparsity)) == 1
            logs = np.log(points.variables[variable])
            if alone or float(np.ptp(logs)) < 1e-9 or len(np.unique(logs)) < parameter.least:
                cause = "there is one sparsity" if variable == "active" else f"all endpoints have the same {variable}"
                if parameter.least > 2:
                    cause = f"there are fewer than {parameter.least} different {variable}"
                fixed_at[parameter.name] = (parameter.rest, f"{parameter.name} is held at {parameter.rest:g}: {cause}")
        return fixed_at

    def predict(self, values: Array, variables: Named) -> Array:
        """The loss in nats, coefficients (..., P) broadcast with the variables, each coefficient by itself."""
        first, second = self.terms(self._coordinates(values), variables)
        return np.asarray(np.asarray(values)[..., 0] + np.exp(first[0]) + np.exp(second[0]))

    def to_values(self, theta: Array, design: Design) -> Array:
        """The coefficients (..., P) at coordinates (..., P)."""
        raw = np.asarray(theta) @ design.centring.T
        return np.where(self._logged, np.exp(np.where(self._logged, raw, 0)), raw)

    def to_theta(self, values: Array, design: Design) -> Array:
        """The inverse of `to_values`."""
        values = np.asarray(values, dtype=np.float64)
        raw = np.where(self._logged, np.log(np.where(self._logged, values, 1)), values)
        return np.asarray(raw @ (2 * np.eye(len(design.centring)) - design.centring).T)

    def slice(self, values: ArrayLike, variables: Mapping[str, ArrayLike]) -> Slice:
        """The surface with all but F and D fixed, in plain units, for coefficients (..., P).

        `variables` are numbers that are fixed ({"active": 1 - S}), or columns of endpoints that are alike in all but
        size, whose geometric means are taken.
        """
        values = np.asarray(values, dtype=np.float64)
        columns = {name: np.asarray(column, dtype=np.float64) for name, column in variables.items()}
        named = {name: values[..., index] for index, name in enumerate(self.coefficients)}
        capacity, data, a, c = self.slice_factors(named, columns)
        return Slice(named["E"], named["A"] * capacity, named["K"] * data, a, c)

    def middle(self) -> dict[str, Array]:
        """Raw coordinates in the middle of the starts, where slopes that are not constant are centred."""
        return {parameter.name: np.array(sum(parameter.starts) / 2) for parameter in self.parameters}

    @property
    def _logged(self) -> NDArray[np.bool_]:
        return np.array([parameter.log for parameter in self.parameters])

    def _coordinates(self, values: Array) -> dict[str, Array]:
        values = np.asarray(values, dtype=np.float64)
        logged = zip(self.coefficients, self._logged, strict=True)
        return {name: np.log(values[..., i]) if log else values[..., i] for i, (name, log) in enumerate(logged)}

    def _box(self, log_loss: Array, fixed: Mapping[str, float]) -> tuple[Array, Array]:
        """Bounds wide enough that a coefficient on one says that the data do not hold it."""
        low, high = float(log_loss.min()), float(log_loss.max())
        levels = {"E": (low - 7, high), "A": (low - 20, high + 5), "K": (low - 20, high + 5)}
        bounds = np.array([levels.get(parameter.name, parameter.bounds) for parameter in self.parameters])
        for name, value in fixed.items():
            index = self.coefficients.index(name)
            if name in LEVELS[1:]:
                raise ValueError(f"{name} is a level at the mean design point: it cannot be held")
            bounds[index] = np.log(value) if self.parameters[index].log else value
        return bounds[:, 0], bounds[:, 1]

    def _centring(self, variables: Named, size: int) -> Array:
        matrix = np.eye(len(self.parameters))
        for level, (_, slopes) in zip(LEVELS[1:], self.terms(self.middle(), variables), strict=True):
            for name, slope in slopes.items():
                mean = np.broadcast_to(slope, (size,)).mean()
                matrix[self.coefficients.index(level), self.coefficients.index(name)] = -mean
        return matrix

    def _term_designs(self, variables: Named, centring: Array, size: int) -> tuple[TermDesign, TermDesign]:
        log_terms = self.terms(self.middle(), variables)
        first, second = (
            self._term_design(level, slopes, centring, size)
            for level, (_, slopes) in zip(LEVELS[1:], log_terms, strict=True)
        )
        return first, second

    def _term_design(self, level: str, slopes: Named, centring: Array, size: int) -> TermDesign:
        index = self.coefficients.index(level)
        columns = [index, *(self.coefficients.index(name) for name in slopes)]
        matrix = np.ones((size, len(columns)))
        for column, slope in enumerate(slopes.values(), start=1):
            matrix[:, column] = slope + centring[index, columns[column]]
        _, distinct, inverse = np.unique(matrix, axis=0, return_index=True, return_inverse=True)
        upper = [(i, j) for i in range(len(columns)) for j in range(i, len(columns))]
        products = np.stack([matrix[:, i] * matrix[:, j] for i, j in upper], axis=1)
        pairs = [(columns[i], columns[j]) for i, j in upper]
        return TermDesign(np.array(columns), matrix, pairs, products, distinct, inverse.ravel())


def _hessian_map(size: int, first: TermDesign, second: TermDesign) -> Array:
    """To which entries of the Hessian each sum of products belongs, (P x P, sums).

    The sums are: E with E; for the second and the first term slope with slope, then E with slope; last the slopes of
    both terms. A coordinate may stand in both terms.
    """
    pairs = [(0, 0)]
    for term in (second, first):
        pairs += term.pairs + [(0, int(column)) for column in term.columns]
    squares = len(pairs)
    pairs += [(int(row), int(column)) for row in first.columns for column in second.columns]
    hessian_map = np.zeros((size, size, len(pairs)))
    for index, (row, column) in enumerate(pairs):
        hessian_map[row, column, index] += 1
        if row != column or index >= squares:
            hessian_map[column, row, index] += 1
    return hessian_map.reshape(size * size, -1)


def log_linear(
    name: str, parameters: Sequence[Parameter], capacity: Powers, data: Powers, formula: str = ""
) -> Surface:
    """A surface whose terms are products of powers, from data alone: exponent -> (variable, sign) of each term.

    A variable may be a choice, "flops|params": the first that the points have.
    """

    def terms(coordinates: Named, variables: Named) -> LogTerms:
        return _product(coordinates, variables, "A", capacity), _product(coordinates, variables, "K", data)

    def slice_factors(values: Named, variables: Named) -> SliceFactors:
        (first, a), (second, c) = (_factor_and_exponent(values, variables, powers) for powers in (capacity, data))
        return first, second, a, c

    read = dict.fromkeys(variable for powers in (capacity, data) for variable, _ in powers.values())
    choices = tuple(one for one in read if "|" in one)
    needed = tuple(one for one in read if one not in choices)
    return Surface(name, tuple(parameters), needed, terms, slice_factors, formula, choices, linear=True)


def _product(coordinates: Named, variables: Named, level: str, powers: Powers) -> tuple[Array, Named]:
    slopes = {exponent: sign * np.log(choose(variables, variable)) for exponent, (variable, sign) in powers.items()}
    return coordinates[level] + sum(coordinates[name] * slope for name, slope in slopes.items()), slopes


def _factor_and_exponent(values: Named, variables: Named, powers: Powers) -> tuple[Array, Array]:
    """The factor that the variables other than F and D make, and the exponent of F or D."""
    factor, main = np.ones(()), np.ones(())
    for exponent, (variable, sign) in powers.items():
        if variable == "tokens" or variable.startswith("flops"):
            main = values[exponent]
            # Where capacity is counted in parameters, F is 6 of them.
            if "flops" not in variables and "params" in variable and "params" in variables:
                factor = factor * np.exp(main * np.log(6.0))
        else:
            at = np.exp(np.mean(np.log(variables[variable])))
            factor = factor * np.exp(sign * values[exponent] * np.log(at))
    return factor, main


def choose(variables: Named, choice: str) -> Array:
    """The first of the variables named in `choice` ("flops|params") that the points have."""
    return next(variables[name] for name in choice.split("|") if name in variables)
