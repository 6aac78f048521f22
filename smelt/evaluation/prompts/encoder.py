"""The tokenizer as prompts need it: BOS, the space before a continuation, and each text tokenised once. No torch.

Special tokens come from the prompt's construction alone: none is added by the tokenizer, and a text that spells one
is encoded like any other.
"""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # a job takes the threads that its rule says

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from smelt.errors import UserError

BOS = "<|bos|>"
SPACES = ("Ġ", "▁")  # what a leading space becomes, of byte-level and of SentencePiece-like tokenizers
Tokens = NDArray[np.int32]


@dataclasses.dataclass(frozen=True)
class Encoder:
    """A tokenizer and what was asked of it once."""

    tokenizer: Tokenizer
    bos: int
    prefix_space: bool  # whether a continuation needs a space of its own in front
    splits: bool  # whether no token and no rule of the tokenizer spans a text's end and a blank
    known: dict[str, Tokens]  # tokens of each text so far


def read_encoder(path: str | Path) -> Encoder:
    """The tokenizer at `path`. Raises UserError where it cannot be read or has no BOS of its own."""
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises the bare class
        raise UserError(f"{path}: not a readable tokenizer ({error}); delete it and run again") from None
    return encoder_of(tokenizer, str(path))


def encoder_of(tokenizer: Tokenizer, place: str = "tokenizer") -> Encoder:
    """An encoder with `tokenizer`, whose settings it changes; `place` names it in messages. Raises UserError."""
    tokenizer.encode_special_tokens = True
    tokenizer.no_truncation()
    tokenizer.no_padding()
    bos = tokenizer.token_to_id(BOS)
    if bos is None:
        raise UserError(f"{place}: has no token {BOS!r}, with which every context begins; add it as a special token")
    if bos in tokenizer.encode(BOS, add_special_tokens=False).ids:
        raise UserError(f"{place}: makes {BOS!r} within a text the token BOS; mark it as special in the tokenizer")
    settings = json.loads(tokenizer.to_str())
    return Encoder(tokenizer, bos, _needs_space(tokenizer), _splits(settings), {})


def encode(encoder: Encoder, text: str) -> Tokens:
    """The text's tokens alone, (tokens,), tokenised at the first call."""
    found = encoder.known.get(text)
    if found is None:
        found = encoder.known[text] = encode_once(encoder, text)
    return found


def encode_once(encoder: Encoder, text: str) -> Tokens:
    """The tokens of a text that will not come again, (tokens,)."""
    return np.array(encoder.tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids, dtype=np.int32)


def separable(encoder: Encoder, left: str, right: str) -> bool:
    """Whether it is certain, without a try, that the tokens of `left + right` are those of both apart.

    A byte-level tokenizer cuts a text where a blank follows a character that is none, before any merge.
    """
    return encoder.splits and left != "" and not left[-1].isspace() and right[:1] in (" ", "\n")


def _needs_space(tokenizer: Tokenizer) -> bool:
    """Whether the tokenizer leaves the start of a text as it is, instead of putting a space before it.

    llm-foundry asks whether " a" is a single token. That is the same for the tokenizers it was made for, but fails
    for a small byte-level vocabulary without that token.
    """
    pieces = tokenizer.encode("a", add_special_tokens=False).tokens
    return not pieces or not pieces[0].startswith(SPACES)


def _splits(settings: dict[str, Any]) -> bool:
    """Of a tokenizer's file, whether it is plain byte-level BPE with the usual split into words."""
    cut, model = settings["pre_tokenizer"] or {}, settings["model"]
    return (
        settings["normalizer"] is None
        and all(token["special"] for token in settings["added_tokens"])
        and cut.get("type") == "ByteLevel"
        and bool(cut.get("use_regex"))
        and not cut.get("add_prefix_space")
        and model.get("type") == "BPE"
        and not any(model.get(key) for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"))
    )
