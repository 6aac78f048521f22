"""What the jobs of the scaling stage are told; see `smelt.workflow.specs`."""

import dataclasses
from collections.abc import Mapping

from smelt.budgets.ledger import budget, sparsity
from smelt.errors import UserError
from smelt.model.settings import ModelSettings
from smelt.scaling.ablations.learning_rate import RateSettings
from smelt.scaling.ablations.settings import Settings as AblationSettings
from smelt.scaling.calibration.settings import Settings as CalibrationSettings
from smelt.scaling.endpoints import collect, simulate, user_table
from smelt.scaling.gains.iso_loss_settings import Settings as IsoLossSettings
from smelt.scaling.settings import Settings as ScalingSettings
from smelt.study import ablations
from smelt.study.base import Study
from smelt.study.endpoint_table import EndpointStudy, SimulatedStudy
from smelt.study.grid import GridStudy, Run
from smelt.workflow.specs import named


def endpoints(study: GridStudy) -> collect.Settings:
    """What the table of endpoints says of each trained run."""
    runs = tuple(_endpoint(study, run) for run in study.trained)
    return collect.Settings(study.config["corpus"]["context"], study.config["scaling"]["s_convention"], runs)


def _endpoint(study: GridStudy, run: Run) -> collect.Run:
    model = run.model
    cost = budget(model, study.attention_keys)
    # As many layers more as the span has: all layers are alike.
    longer = budget(dataclasses.replace(model, layers=model.layers + model.loop_length), study.attention_keys)
    found = sparsities(study, run)
    return collect.Run(
        **named(run),
        flops_per_token=cost.flops_per_token,
        params=cost.params,
        kv_bytes_per_token=cost.kv_bytes_per_token,
        S=_chosen_sparsity(study, run, found),
        S_own=found["own"],
        S_baseline=found["baseline"],
        S_nominal=found["nominal"],
        active_params=cost.active_params,
        looped_params=longer.active_params - cost.active_params,
        visits=model.visits,
        expansion=model.experts / model.active_experts,
        batch_contexts=run.training.batch_contexts,
        branch_steps=run.training.branch_steps,
        decay_steps=run.training.decay_steps,
    )


def sparsities(study: GridStudy, run: Run) -> dict[str, float | None]:
    """S of a run under each convention: by Eq. 1 against its own control (none where the grid has none) or against
    the reference's, and its label's."""
    mine = budget(run.model, study.attention_keys)

    def against(control: ModelSettings | None) -> float | None:
        if control is None:
            return None
        active = budget(control, study.attention_keys)
        return sparsity(mine.flops_per_token, mine.params, active.flops_per_token, active.params)

    reference = study.control(run.scale)
    return {
        "own": against(reference if run.architecture == study.reference else study.own_control(run)),
        "baseline": against(reference),
        "nominal": study.sparsity_values[run.sparsity],
    }


def _chosen_sparsity(study: GridStudy, run: Run, found: Mapping[str, float | None]) -> float:
    value = found[study.config["scaling"]["s_convention"]]
    if value is None:
        raise UserError(
            f"scaling.s_convention is own, but {run.architecture} has no S0 control at {run.scale}; "
            "add S0 to grid.sparsities or choose baseline"
        )
    return value


def rates(study: GridStudy) -> RateSettings:
    """The runs of a sweep of the learning rate and the rate of each."""
    learning_rates = tuple(run.training.learning_rate for run in study.trained)
    return RateSettings(study.reference, learning_rates, endpoints(study))


def sweeps(study: GridStudy) -> AblationSettings:
    """The points of each ablation."""
    return AblationSettings(ablations.points(study.config, study.networks))


def fits(study: Study) -> ScalingSettings:
    """Settings of the fits, and what they need to know of the endpoints."""
    return study.settings(
        ScalingSettings,
        "scaling",
        study=study.name,
        reference=study.reference,
        sparsity_values=study.sparsity_values,
        s_convention=study.s_convention,
    )


def iso_loss_gain(study: Study) -> IsoLossSettings:
    """What the iso-loss gain needs to know of the study; nothing is fitted."""
    return study.settings(
        IsoLossSettings, "scaling", study=study.name, reference=study.reference, s_convention=study.s_convention
    )


def calibration(study: Study) -> CalibrationSettings:
    """What the calibration of downstream scores needs to know."""
    return study.settings(CalibrationSettings, "scaling", study=study.name, reference=study.reference)


def own_endpoints(study: EndpointStudy) -> user_table.Settings:
    """How the study's file of endpoints is read."""
    return study.settings(user_table.Settings, "scaling")


def simulated_endpoints(study: SimulatedStudy) -> simulate.Settings:
    """The surfaces and the noise of a simulation."""
    return study.simulation
