"""Settings of the job that reads iso-loss gains. Needs no scipy."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the gain needs to know of the study."""

    study: str
    reference: str  # architecture that the gains compare with
    s_convention: str
    fit_sparsities: tuple[str, ...] = ()  # labels; without any all but the control
