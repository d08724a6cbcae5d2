"""A word-level tokenizer made from a game's own language.

Words are what stands between spaces, punctuation attached ("alive?" is one token), so that
an utterance is a handful of tokens. Case is kept only where the game's language needs it:
if that has no capitals, everything is read in lower case. A game reads

    what is it? <assistant> is it alive? <end> yes <assistant> i guess cat <end>

where the end token is also the end of sequence. The chat template leaves system
messages out: this policy learns the rules by playing and reads none.
"""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

PAD, UNKNOWN, END, ASSISTANT = "<pad>", "<unk>", "<end>", "<assistant>"
SPECIAL = (PAD, UNKNOWN, END, ASSISTANT)

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'user' -%}{{ message['content'] }}"
    "{%- elif message['role'] == 'assistant' -%}{{ '<assistant>' + message['content'] + '<end>' }}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<assistant>' }}{%- endif -%}"
)


def make_tokenizer(language: Iterable[str], longest: int) -> PreTrainedTokenizerFast:
    """The words of `language` in alphabetical order: the same language, the same ids."""
    words = sorted({word for sentence in language for word in sentence.split()} - set(SPECIAL))
    if not words:
        raise ValueError("the game's language() holds no words, so there is nothing to make a tokenizer of")
    vocabulary = {word: number for number, word in enumerate((*SPECIAL, *words))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    if all(word == word.lower() for word in words):
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=END,
        additional_special_tokens=[ASSISTANT],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=longest,
    )
