"""The rules of the workflow as Snakemake itself reads them, for a study."""

import contextlib
import functools
import io
import sys
from pathlib import Path
from typing import Any

from snakemake.api import SnakemakeApi
from snakemake.settings.types import ConfigSettings, OutputSettings, ResourceSettings

ROOT = Path(__file__).parents[2]


@functools.cache
def rules(study: str = "smoke") -> dict[str, Any]:
    """Snakemake's own objects, by the names of the rules, in the order of the files."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    with contextlib.chdir(ROOT), contextlib.redirect_stderr(io.StringIO()), SnakemakeApi(OutputSettings()) as api:
        workflow = api.workflow(
            resource_settings=ResourceSettings(cores=1),
            config_settings=ConfigSettings(config={"study": study}),
            snakefile=ROOT / "Snakefile",
        )
        return {rule.name: rule for rule in workflow._workflow.rules}
