"""Score an endpoint on any task of EleutherAI's lm-evaluation-harness (package lm_eval, no dependency of ours).

Reads one endpoint model and the study's tokenizer; prints lm_eval's table and, with --out, writes its results as JSON.
Prompts, demonstrations and metrics are lm_eval's; scores and continuations are the network's own, with one BOS first
that no cut takes away. The tasks of a study are not computed here: this is for all the others.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from smelt.artifacts import provenance, replacing
from smelt.errors import UserError, command
from smelt.evaluation.prompts.encoder import read_encoder
from smelt.evaluation.scoring.endpoint import read_model
from smelt.evaluation.scoring.texts import continued, log_likelihoods, rolling
from smelt.job import read_job
from smelt.model.decode import for_decoding

MISSING = ""
try:
    from lm_eval.api.model import LM  # type: ignore[import-not-found]
except ImportError as error:  # an extra: `main` says what is missing
    LM, MISSING = object, str(error)

MODULE = "smelt.evaluation.scoring.lm_eval"
VERSION = "0.4.13"  # of lm_eval, that it was tried with
NEW_TOKENS = 256  # where a task says nothing, as lm_eval's other models take it
LIMITS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")  # names of one thing, in order
RESAMPLES = 1000  # for standard errors that lm_eval has no formula for


@dataclasses.dataclass(frozen=True)
class Settings:
    """None: what is scored is said in options, as to lm_eval itself."""


@dataclasses.dataclass(frozen=True)
class Options:
    tasks: tuple[str, ...] = dataclasses.field(metadata={"help": "tasks, groups or patterns of lm_eval", "nargs": "+"})
    include: str | None = dataclasses.field(
        default=None, metadata={"help": "folder of task files beside lm_eval's own"}
    )
    shots: int | None = dataclasses.field(
        default=None, metadata={"help": "demonstrations; by default each task's own number"}
    )
    limit: int | None = dataclasses.field(default=None, metadata={"help": "first items of each task; by default all"})
    seed: int = dataclasses.field(default=1234, metadata={"help": "of the demonstrations"})
    context: int = dataclasses.field(default=4096, metadata={"help": "most tokens that the network reads at once"})
    precision: str = dataclasses.field(
        default="bfloat16", metadata={"help": "of the experts", "choices": ["bfloat16", "float32"]}
    )


class SmeltLM(LM):
    """One endpoint as lm_eval sees a model."""

    def __init__(self, model: str, tokenizer: str, context: int = 4096, precision: str = "bfloat16") -> None:
        super().__init__()
        network, _ = read_model(model, getattr(torch, precision))
        self.model = for_decoding(network)
        self.encoder = read_encoder(tokenizer)
        self.context = int(context)
        size = self.encoder.tokenizer.get_vocab_size()
        if size > network.settings.vocabulary:
            raise UserError(
                f"{tokenizer}: has {size} tokens, the network of {model} {network.settings.vocabulary}; give the"
                " tokenizer of its own study"
            )

    def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Log-probability (nats) of each (context, continuation), and whether greedy decoding would write it."""
        pairs = [request.args for request in requests]
        return [
            (one.log_probability, one.greedy) for one in log_likelihoods(self.model, self.encoder, pairs, self.context)
        ]

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
        """Log-probability (nats) of each whole text."""
        return rolling(self.model, self.encoder, [request.args[0] for request in requests], self.context)

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """What greedy decoding writes after each (context, options), up to a stop."""
        found: dict[tuple[str, tuple[str, ...], int], str] = {}
        asked = [(request.args[0], *options(request.args[1])) for request in requests]
        for one in dict.fromkeys(asked):
            found[one] = continued(self.model, self.encoder, *one, self.context)
        return [found[one] for one in asked]


def options(given: Mapping[str, Any]) -> tuple[tuple[str, ...], int]:
    """Stops and number of new tokens that a task asks for. Raises UserError where that is not greedy decoding."""
    sampled = given.get("do_sample")
    if sampled or (sampled is None and (given.get("temperature") or 0) > 0) or (given.get("num_beams") or 1) > 1:
        asked = {key: given[key] for key in ("do_sample", "temperature", "num_beams") if key in given}
        raise UserError(f"a task asks for {asked}, but decoding is greedy here; leave it out of --tasks")
    until = given.get("until") or ()
    stops = (until,) if isinstance(until, str) else tuple(until)
    return stops, int(next((given[key] for key in LIMITS if given.get(key) is not None), NEW_TOKENS))


def evaluated(lm: SmeltLM, options: Options) -> dict[str, Any]:
    """lm_eval's results. Raises UserError on a task that it does not know."""
    from lm_eval.evaluator import simple_evaluate  # type: ignore[import-not-found]
    from lm_eval.tasks import TaskManager  # type: ignore[import-not-found]

    manager = TaskManager(include_path=options.include)
    if unknown := [name for name in options.tasks if not manager.match_tasks([name])]:
        raise UserError(f"lm_eval has no task {unknown[0]!r}; `lm_eval ls tasks` lists them, --include adds a folder")
    found: dict[str, Any] = simple_evaluate(
        model=lm,
        tasks=manager.match_tasks(options.tasks),
        task_manager=manager,
        num_fewshot=options.shots,
        limit=options.limit,
        fewshot_random_seed=options.seed,
        bootstrap_iters=RESAMPLES,
        log_samples=False,
    )
    return found


def main(argv: Sequence[str]) -> None:
    job = read_job(MODULE, __doc__, argv, Settings, ["model", "tokenizer"], ["out?"], Options)
    if MISSING:
        raise UserError(f"lm_eval cannot be imported ({MISSING}); install it beside us: pip install lm_eval=={VERSION}")

    torch.set_num_threads(1)  # the bits depend on it
    options = job.options
    model, tokenizer = job.path("model"), job.path("tokenizer")
    found = evaluated(SmeltLM(str(model), str(tokenizer), options.context, options.precision), options)
    from lm_eval.utils import make_table  # type: ignore[import-not-found]

    print(make_table(found))
    for path in job.paths("out"):
        origin = provenance(MODULE, dataclasses.asdict(options), [model, tokenizer])
        kept = {key: found[key] for key in ("results", "versions", "n-shot")} | {"provenance": origin}
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    command(main)
