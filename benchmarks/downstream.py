"""Scoring of downstream tasks against the usual harness's way, on the same looped MoE and the same requests.

    python -m benchmarks.downstream --data FOLDER

FOLDER holds DCLM's item files of ARC-Easy, HellaSwag and Language-ID (or samples of them; as `find_file` looks for
them, and in its folders tasks/ and samples/); without it, procedural tasks with one continuation each are scored, which
have no context to share. The other way is that of lm-evaluation-harness: every request by itself, sorted by length and
padded in batches of 16, all positions through the output layer and a log-softmax (here text by text, as the logits of
a batch would need 10 GB at a vocabulary of 50k). `once` is the same with the harness's treatment of choices of one
token, for which it runs a context once. Both sides take turns in one process and thread; the smallest CPU time of each
counts. The tokenizer is trained on the item files with 8,000 tokens, whatever the network's vocabulary.

Then the fill of the rows over all items of the files, and the peak memory of the command at N and 4 N requests.
"""

import argparse
import dataclasses
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import Tensor

from smelt.artifacts import table, write_table
from smelt.evaluation.prompts.encoder import BOS, Encoder, encoder_of
from smelt.evaluation.prompts.requests import REQUESTS, Settings, task_rows
from smelt.evaluation.scoring.log_likelihood import Scored, score_trees
from smelt.evaluation.scoring.trees import Tree, fed, fill, pack
from smelt.evaluation.tasks.generate import generated
from smelt.evaluation.tasks.items import Item, find_file, read_items
from smelt.evaluation.tasks.registry import Task, read_tasks
from smelt.model.decode import for_decoding
from smelt.model.settings import ModelSettings
from smelt.model.transformer import Transformer, initialise

CONTEXT, BATCH, TOKENS = 4096, 16, 8000
GIVEN = ("arc_easy", "hellaswag", "bigbench_language_identification")
MADE = ("dyck_languages", "cs_algorithms", "operators")
SHAPE = ModelSettings(
    vocabulary=TOKENS, layers=4, hidden_size=256, heads=4, kv_heads=2, head_size=64, experts=64, expert_width=64,
    active_experts=8, loop_start=1, loop_length=2, visits=2,
)  # fmt: skip
SMALL = dataclasses.replace(SHAPE, vocabulary=512, hidden_size=32, heads=2, kv_heads=1, head_size=16, expert_width=16)

Text = tuple[list[int], list[list[int]]]  # what is fed, and the continuations whose last token follows it
Way = Callable[[Transformer, list[Tree]], list[list[Scored]]]


def items_of(data: str) -> dict[str, tuple[Task, list[Item]]]:
    """The tasks and all of their items."""
    tasks = {name: dataclasses.replace(task, sha256="", items=0) for name, task in read_tasks().items()}
    if not data:
        return {
            name: (tasks[name], [Item(i, f"{i:016x}", query, (answer,), "", 0, "") for i, (query, answer) in rows])
            for name in MADE
            for rows in [enumerate(generated(name, 1000, 0))]
        }
    found = {}
    for name in GIVEN:
        places = [find_file(folder, tasks[name]) for folder in (data, f"{data}/tasks", f"{data}/samples")]
        if not any(places):
            sys.exit(f"error: {data}: no file {tasks[name].file}; bring DCLM's, or leave --data out")
        path = next(path for path in places if path)
        found[name] = (tasks[name], read_items(path, tasks[name]))
    return found


def trained(items: Sequence[Item]) -> Encoder:
    """A byte-level tokenizer of the items' own text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=TOKENS,
        special_tokens=[BOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((text for item in items for text in (item.query, *item.choices)), trainer)
    return encoder_of(tokenizer)


def trees_of(encoder: Encoder, task: Task, items: Sequence[Item], count: int) -> list[Tree]:
    """The trees of `count` items (0 = all) with the task's own number of demonstrations."""
    settings = Settings(
        tasks=(task,),
        files=(),
        preset_items=count,
        shots=(),
        seeds=(0,),
        sampler="smelt",
        truncation="bos_left",
        context=CONTEXT,
    )
    rows = task_rows(encoder, task, items, [], settings)
    return [Tree(row["context"].tolist(), [tokens.tolist() for tokens in row["continuations"]]) for row in rows]


def ours(model: Transformer, trees: list[Tree]) -> list[list[Scored]]:
    return list(score_trees(model, trees, CONTEXT))


def padded(model: Transformer, trees: list[Tree]) -> list[list[Scored]]:
    """Every request by itself, in padded batches of similar length."""
    texts: list[Text] = [
        ([*tree.context, *tokens[:-1]], [list(tokens)]) for tree in trees for tokens in tree.continuations
    ]
    scored = iter(_in_batches(model, texts))
    return [[next(scored) for _ in tree.continuations] for tree in trees]


def once(model: Transformer, trees: list[Tree]) -> list[list[Scored]]:
    """The same, but a text that several choices of one token follow runs once."""
    texts: list[Text] = []
    for tree in trees:
        answers = [list(tokens) for tokens in tree.continuations]
        if all(len(tokens) == 1 for tokens in answers):
            texts.append(([*tree.context], answers))
        else:
            texts += [([*tree.context, *tokens[:-1]], [tokens]) for tokens in answers]
    scored = iter(_in_batches(model, texts))
    return [[next(scored) for _ in tree.continuations] for tree in trees]


@torch.inference_mode()
def _in_batches(model: Transformer, texts: list[Text]) -> list[Scored]:
    """Scores of the continuations of each text, one after the other."""
    order = sorted(range(len(texts)), key=lambda index: -len(texts[index][0]))
    found: dict[int, list[Scored]] = {}
    for first in range(0, len(order), BATCH):
        batch = order[first : first + BATCH]
        length = len(texts[batch[0]][0])
        tokens = torch.zeros(len(batch), length, dtype=torch.long)
        for row, index in enumerate(batch):
            tokens[row, : len(texts[index][0])] = torch.tensor(texts[index][0])
        hidden = model(tokens.flatten(), [length] * len(batch)).hidden.unflatten(0, (-1, length))
        for row, index in enumerate(batch):
            text, continuations = texts[index]
            predicted = model.logits(hidden[row]).log_softmax(dim=-1)
            found[index] = [_read(predicted[: len(text)], tokens) for tokens in continuations]
    return [scored for index in range(len(texts)) for scored in found[index]]


def _read(predicted: Tensor, tokens: Sequence[int]) -> Scored:
    own, right = predicted[-len(tokens) :], torch.tensor(tokens)
    values = own.gather(1, right.unsqueeze(1)).double()
    return Scored(float(values.sum()), bool((own.argmax(dim=-1) == right).all()))


def race(
    model: Transformer, trees: list[Tree], ways: Sequence[Way], rounds: int
) -> tuple[list[float], list[list[list[Scored]]]]:
    """Smallest CPU seconds of each way, and what each found; they take turns."""
    best = [float("inf")] * len(ways)
    found: list[list[list[Scored]]] = [[]] * len(ways)
    for _ in range(rounds):
        for number, way in enumerate(ways):
            start = time.process_time()
            found[number] = way(model, trees)
            best[number] = min(best[number], time.process_time() - start)
    return best, found


def choice(tree: Tree, scores: Sequence[Scored]) -> int:
    """The continuation that is likeliest by its mean over tokens."""
    means = [one.log_probability / len(tokens) for one, tokens in zip(scores, tree.continuations, strict=True)]
    return means.index(max(means))


def compare(trees: Sequence[Tree], mine: Sequence[Sequence[Scored]], others: Sequence[Sequence[Scored]]) -> str:
    pairs = [pair for found in zip(mine, others, strict=True) for pair in zip(*found, strict=True)]
    largest = max(abs(one.log_probability - other.log_probability) for one, other in pairs)
    flips = sum(choice(tree, a) != choice(tree, b) for tree, a, b in zip(trees, mine, others, strict=True))
    greedy = sum(one.greedy != other.greedy for one, other in pairs)
    return f"{largest:>12.1e}{flips:>9}{greedy:>8}"


def speeds(trees: dict[str, list[Tree]], vocabularies: Sequence[int], precisions: Sequence[str], rounds: int) -> None:
    print(f"{'':<44}{'tokens/s':>9}{'ratio':>8}{'once':>8}{'|dlogp|':>12}{'choices':>9}{'greedy':>8}")
    for vocabulary in vocabularies:
        for precision in precisions:
            model = Transformer(dataclasses.replace(SHAPE, vocabulary=vocabulary), getattr(torch, precision))
            initialise(model, 0)
            for_decoding(model)
            for name, asked in trees.items():
                (mine, theirs, fewer), found = race(model, asked, (ours, padded, once), rounds)
                tokens = sum(map(fed, asked))
                cells = f"{tokens / mine:>9.0f}{theirs / mine:>7.1f}x{fewer / mine:>7.1f}x"
                print(f"{vocabulary:>6} {precision:<9}{name:<28}{cells}{compare(asked, *found[:2])}", flush=True)


def fills(trees: dict[str, list[Tree]]) -> None:
    lengths = {name: [fed(tree) for tree in asked] for name, asked in trees.items()}
    lengths["all"] = [length for name in trees for length in lengths[name]]
    for name, sizes in lengths.items():
        rows = pack(sizes, CONTEXT)
        print(f"fill {name:<36}{len(sizes):>6} trees{len(rows):>6} rows{fill(rows, sizes, CONTEXT):>8.1%}")


def requests(count: int) -> Iterator[dict]:
    """Short made-up requests, all different."""
    draw = random.Random(0)
    for item in range(count):
        context = [draw.randrange(SMALL.vocabulary) for _ in range(24)]
        answers = [[draw.randrange(SMALL.vocabulary) for _ in range(size)] for size in (1, 2, 3, 4)]
        yield {
            "tree": f"{item:032x}", "task": "made", "shots": 0, "seed": None, "item": item, "item_id": f"{item:016x}",
            "category": "", "option": 0, "gold": 0, "context": context, "continuations": answers,
            "characters": [1] * 4, "bytes": [1] * 4, "demonstrations": [], "truncated": 0, "dropped": 0,
            "differing": False,
        }  # fmt: skip


def peak(count: int) -> float:
    """Peak memory in MB of a process that scores so many requests by the command."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = Transformer(SMALL)
        initialise(model, 0)
        about = json.dumps({"run": "smelt-H16-S85", "model": dataclasses.asdict(SMALL), "branch": 1, "branch_step": 1})
        save_file(model.state_dict(), folder / "branch-1.safetensors", {"endpoint": about})
        write_table(table(list(requests(count)), REQUESTS), folder / "requests.parquet", {}, row_group_size=2000)
        arguments = [sys.executable, "-m", "smelt.evaluation.scoring.score", "--spec", json.dumps({"context": CONTEXT})]
        arguments += [
            "--models",
            str(folder / "branch-1.safetensors"),
            "--all-endpoints",
            str(folder / "requests.parquet"),
        ]
        arguments += ["--state", str(folder / "state"), "--out", str(folder / "scores.parquet")]
        child = subprocess.Popen(arguments, stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
        _, status, usage = os.wait4(child.pid, 0)
        if status:
            sys.exit("error: the command failed")
        return usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="", help="folder of item files")
    parser.add_argument("--items", type=int, default=16, help="of each task")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--vocabularies", type=int, nargs="+", default=[50304, TOKENS])
    parser.add_argument("--precisions", nargs="+", default=["bfloat16", "float32"])
    parser.add_argument("--requests", type=int, default=4000, help="N of the memory's measurement; 0 for none")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tasks = items_of(arguments.data)
    encoder = trained([item for _, items in tasks.values() for item in items])
    few = {name: trees_of(encoder, task, items, arguments.items) for name, (task, items) in tasks.items()}
    for name, asked in few.items():
        tokens = sum(map(fed, asked))
        each = sum(len(tree.context) + len(answer) - 1 for tree in asked for answer in tree.continuations)
        print(f"{name}: {len(asked)} contexts, {tokens} tokens with their branches, {each} one request at a time")
    speeds(few, arguments.vocabularies, arguments.precisions, arguments.rounds)
    fills({name: trees_of(encoder, task, items, 0) for name, (task, items) in tasks.items()})
    if arguments.requests:
        for count in (arguments.requests, 4 * arguments.requests):
            print(f"peak memory of the command with {count:>6} requests {peak(count):>8.0f} MB", flush=True)


if __name__ == "__main__":
    main()
