"""Seconds and memory of one network's work: its training steps, or its decoding with a cache.

Each network works in a process of its own, so that its peak memory is its own too, and the processes take turns, so
that whatever slows the machine down slows all of them alike. One thread, as in the training jobs.

Peak memory is the largest resident set of the process less that of the idle process: one that has loaded Python, torch
and the package and has already done the same work on a miniature network, so that the libraries' code is in memory.
What remains belongs to the network: weights, gradients and AdamW's moments, activations, temporaries, batches. A
training job also holds, while it decays a branch, a copy of weights and moments; that copy is not in it.
"""

import dataclasses
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple

import torch

from smelt.model.decode import Cache, extend, for_decoding, greedy
from smelt.model.settings import ModelSettings
from smelt.model.transformer import Transformer, initialise
from smelt.training.settings import TrainingSettings
from smelt.training.steps.data import Batch, ContextStream
from smelt.training.steps.step import optimizer, train_step

RATE = 1e-3  # learning rate of the timed steps; it decides no cost
UNIT = 1 if sys.platform == "darwin" else 1024  # bytes of ru_maxrss
MINIATURE = ModelSettings(
    vocabulary=32,
    layers=1,
    hidden_size=8,
    heads=1,
    kv_heads=1,
    head_size=4,
    experts=2,
    expert_width=8,
    active_experts=1,
)


@dataclasses.dataclass(frozen=True)
class Text:
    """What the timed steps read: contexts of a packed shard, or random tokens in segments of given lengths."""

    context: int  # tokens of a full context
    batch_contexts: int = 1
    segments: tuple[int, ...] = ()  # tokens, repeated until the context is full; none: one segment
    shard: str | None = None

    def batches(self, vocabulary: int, count: int) -> list[Batch]:
        """The first `count` batches; a short shard is read again from its start."""
        if self.shard is not None:
            stream = ContextStream([self.shard], 0)
            available = stream.each // self.batch_contexts
            return [stream.batch(index % available, self.batch_contexts) for index in range(count)]
        generator = torch.Generator().manual_seed(0)
        size = self.batch_contexts * self.context
        lengths = self.batch_contexts * _filled(self.context, self.segments)
        return [Batch(torch.randint(vocabulary, (size,), generator=generator), lengths) for _ in range(count)]


def _filled(context: int, segments: Sequence[int]) -> list[int]:
    """Lengths of the segments that fill a context, the last one cut; none of a single token, which has no target."""
    lengths: list[int] = []
    left = context
    while left:
        length = min(left, segments[len(lengths) % len(segments)]) if segments else left
        lengths.append(left if left - length < 2 else length)
        left -= lengths[-1]
    return lengths


class Work(NamedTuple):
    """Something that can be timed again and again, the repeats counted from 0, and what is known of it."""

    once: Callable[[int], object]
    facts: dict[str, int]


def training(model: ModelSettings, precision: str, text: Text, batches: int) -> Work:
    """Optimizer steps of the training job, from the initial weights on."""
    settings = TrainingSettings(1, (1,), 1, RATE, batch_contexts=text.batch_contexts, precision=precision)
    read = text.batches(model.vocabulary, batches)
    network = Transformer(model, getattr(torch, precision))
    initialise(network, 0)
    adamw = optimizer(network, settings)
    return Work(
        lambda index: train_step(network, adamw, read[index % batches], RATE, settings),
        {"tokens": text.batch_contexts * text.context},
    )


def decoding(model: ModelSettings, precision: str, prompt: int, count: int) -> Work:
    """Decoding of `count` tokens of one sequence behind a prompt of `prompt` tokens that stands in the cache."""
    with torch.device("meta"):  # so that the weights are never all there in float32
        network = for_decoding(Transformer(model, getattr(torch, precision)))
    network.to_empty(device="cpu")
    for gain in (parameter for parameter in network.parameters() if parameter.dim() == 1):
        torch.nn.init.ones_(gain)
    initialise(network, 0)
    cache = Cache(model, prompt + count)
    tokens = torch.randint(model.vocabulary, (1, prompt), generator=torch.Generator().manual_seed(0))
    first = network.logits(extend(network, tokens, cache)[:, -1]).argmax(dim=-1, keepdim=True)

    def once(index: int) -> None:
        cache.filled = prompt
        greedy(network, first, count, cache)

    return Work(once, {"tokens": count, "cache_bytes_per_token": cache.bytes // cache.length})


class Apart:
    """A process of its own for one network's work. `failure` says why it has ended, where it has."""

    def __init__(self) -> None:
        # Its processes start bare, and what is slow to load is loaded once; an optimizer loads torch._dynamo.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__, "torch._dynamo"])
        self.pool = ProcessPoolExecutor(1, mp_context=context)
        self.failure: str | None = None

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The function's value there; None where the process fails for want of memory, or has before."""
        if self.failure is not None:
            return None
        try:
            return self.pool.submit(function, *arguments).result()
        except BrokenProcessPool:
            self.failure = "the process was killed, as systems do that run out of memory"
        except (MemoryError, RuntimeError) as error:  # of torch's allocator
            if not isinstance(error, MemoryError) and "allocate memory" not in str(error):
                raise
            self.failure = "memory ran out"
        return None


class Measured(NamedTuple):
    """One network's work as it was measured; empty where it failed, with the reason."""

    seconds: list[float]  # of each timed repeat, by the clock
    cpu_seconds: list[float]  # of each, of the processor
    peak_bytes: int | None
    facts: dict[str, int]
    reason: str | None


def missing(reason: str | None) -> Measured:
    """Work that was not measured."""
    return Measured([], [], None, {}, reason)


def alternating(
    make: Callable[..., Work], members: Sequence[tuple[Any, ...]], repeats: int, warmup: int, limit: float
) -> list[Measured]:
    """Measure `make(*arguments)` for the arguments of each member, all of them taking turns.

    Makes `warmup` rounds that are not timed, then up to `repeats`; no further one starts after `limit` seconds.
    """
    processes = [Apart() for _ in members]
    try:
        facts = [process.call(_begin, make, arguments) for process, arguments in zip(processes, members, strict=True)]
        for index in range(warmup):
            for process in processes:
                process.call(_once, index)
        rounds: list[list[Any]] = [[] for _ in members]
        start = time.monotonic()
        for index in range(warmup, warmup + repeats):
            if index > warmup and time.monotonic() - start > limit:
                break
            for process, found in zip(processes, rounds, strict=True):
                found.append(process.call(_once, index))
        peaks = [process.call(_peak_bytes) for process in processes]
    finally:
        for process in processes:
            process.pool.shutdown()
    return [
        missing(process.failure)
        if process.failure
        else Measured([wall for wall, _ in times], [cpu for _, cpu in times], peak, known, None)
        for process, times, peak, known in zip(processes, rounds, peaks, facts, strict=True)
    ]


# What follows runs in the process of one network, which has one work and one idle size.
_work: Work
_idle_bytes: int


def _begin(make: Callable[..., Work], arguments: tuple[Any, ...]) -> dict[str, int]:
    """Make the work, after the same on a miniature; returns what is known of it."""
    global _work, _idle_bytes
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    precision = arguments[1]
    make(MINIATURE, precision, *((Text(32), 1) if make is training else (8, 2))).once(0)
    _idle_bytes = _largest()
    _work = make(*arguments)
    return _work.facts


def _once(index: int) -> tuple[float, float]:
    """Seconds of one more repeat, by the clock and of the processor."""
    wall, cpu = time.perf_counter(), time.process_time()
    _work.once(index)
    return time.perf_counter() - wall, time.process_time() - cpu


def _peak_bytes() -> int:
    return _largest() - _idle_bytes


def _largest() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT
