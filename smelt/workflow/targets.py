"""Which tables and figures a study has: what its default targets are made of.

A tuning study answers another question than a grid: its endpoints differ in their learning rate, and no surface fits
them. Nor does one fit ablations, whose architectures differ and have one endpoint each.
"""

from smelt.reporting.paper.comparison import MEASURED
from smelt.study.base import Study
from smelt.study.grid import GridStudy
from smelt.workflow import paper

KINDS = ("pdf", "svg", "png")  # of a figure's files
GAINS = ["ce_gain", "iso_loss_gain"]
ANSWERS = [*GAINS, "coefficients", "allocation", "endpoints", "leave_one_out", "surface_pairs"]
FIGURES = ["loss_by_compute", "surfaces", "reducible_loss", "frontiers", "gain_curve", "iso_loss_gain"]
SUBSET_TABLES = ["subsets", "length"]
SUBSET_FIGURES = ["subsets", "quartiles", "length_profile"]
CALIBRATION_TABLES = ["calibration", "calibration_means", "wins"]
# Tables that the paper's comparison reads, of a study whose endpoints can be compared with the paper's.
COMPARED = ["ce_gain", "coefficients", "allocation", "endpoints", "surface_pairs"]


def tunes(study: Study) -> bool:
    """Whether the study sweeps the learning rate."""
    return isinstance(study, GridStudy) and bool(study.config["tuning"]["learning_rates"])


def ablations(study: Study) -> list[str]:
    """Names of the study's ablations."""
    return list(study.config["ablations"]) if isinstance(study, GridStudy) else []


def fits(study: Study) -> bool:
    """Whether surfaces are fitted to the study's endpoints."""
    return not tunes(study) and not ablations(study)


def scaling_tables(study: Study) -> list[str]:
    """Tables of the scaling stage that need nothing but endpoints and fits."""
    return ["learning_rate"] if tunes(study) else [*ablations(study), "endpoints"] if ablations(study) else ANSWERS


def task_tables(study: Study) -> list[str]:
    """Tables of downstream tasks; the in-context sweep needs the last endpoints."""
    if not (isinstance(study, GridStudy) and study.config["evaluation"]["tasks"]):
        return []
    sweep = ["icl", "sweep"] if "last_endpoint" in study.config["evaluation"] else []
    return ["task_scores", "core", "completion", "mmlu", *sweep]


def calibration_tables(study: Study) -> list[str]:
    """Tables of downstream scores against the loss."""
    return CALIBRATION_TABLES if study.scores else []


def paper_tables(study: Study) -> list[str]:
    """The comparison with the paper, of its own study and of those simulated from its published surfaces."""
    return ["paper_comparison"] if paper.comparable(study) else []


def compared_tables(study: Study) -> list[str]:
    """Paths below the results root of the tables that are compared with the paper's numbers."""
    if not paper.comparable(study):
        return []
    budgets = ["tables/budgets.parquet"] if paper.source(study) == MEASURED else []
    return [f"scaling/{name}.parquet" for name in COMPARED] + budgets


def tables(study: Study) -> list[str]:
    """All tables of the study, by name."""
    names = list(scaling_tables(study))
    names += ["sensitivity"] if fits(study) else []
    if isinstance(study, GridStudy):
        names += ["plan", "budgets", "corpus", "streams", "runs", *(SUBSET_TABLES if fits(study) else [])]
    return [*names, *task_tables(study), *calibration_tables(study), *paper_tables(study)]


def figures(study: Study) -> list[str]:
    """All figures of the study, by name."""
    names = ["learning_rate"] if tunes(study) else ablations(study) or list(FIGURES)
    if isinstance(study, GridStudy):
        names += ["training_curves", *(SUBSET_FIGURES if fits(study) else [])]
    drawn = {"core": "downstream", "icl": "icl"}
    names += [figure for table, figure in drawn.items() if table in task_tables(study)]
    return [*names, *(["calibration"] if study.scores else [])]


def figure_files(names: list[str]) -> list[str]:
    """The files of figures, as rules name them."""
    return [f"<results>/figures/{name}.{kind}" for name in names for kind in KINDS]
