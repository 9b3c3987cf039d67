"""Launch lines as they are kept: split as a shell does, every secret out, all else as typed."""

import pytest

from agentx_replay.results.launch_line import hidden_launch, hidden_text


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("vllm serve m --api-key sk-1 --tp 8", "vllm serve m --api-key *** --tp 8"),
        ("vllm serve m --api-key=sk-1 -tp=8", "vllm serve m --api-key=*** -tp=8"),
        ("vllm serve m --api-key sk-1 sk-2 --port 80", "vllm serve m --api-key *** *** --port 80"),
        (
            "docker run -e HF_TOKEN=hf_1 -e GPUS=0,1 image vllm serve m",
            "docker run -e HF_TOKEN=*** -e GPUS=0,1 image vllm serve m",
        ),
        (
            "HF_TOKEN='a b' exec x \\\n  --max-num-batched-tokens 8192 && echo up",
            "HF_TOKEN=*** exec x --max-num-batched-tokens 8192 && echo up",
        ),
        (
            "x --base https://me:pass@host/v1?token=zz&page=1",
            "x --base https://***@host/v1?token=*** & page=1",
        ),
        (
            "bash -c 'x --api-key \"sk 1\" --port 80'",
            "bash -c 'x --api-key *** --port 80'",
        ),
        (
            """x --kv-transfer-config '{"role": "both", "auth_token": "zz"}'""",
            """x --kv-transfer-config '{"role":"both","auth_token":"***"}'""",
        ),
        (
            "curl -H 'Authorization: Bearer zz' http://h/v1",
            "curl -H 'Authorization: ***' http://h/v1",
        ),
        (
            "docker run -eAWS_SECRET_ACCESS_KEY=zz --env=DB_PASSWORD=zz img --tokenizer t",
            "docker run -eAWS_SECRET_ACCESS_KEY=*** --env=DB_PASSWORD=*** img --tokenizer t",
        ),
        (
            """x --cfg '{"headers": ["Authorization: Bearer zz"]}' MYSQL_PWD=zz""",
            """x --cfg '{"headers":["Authorization: ***"]}' MYSQL_PWD=***""",
        ),
        ("x --note hf_abcdefgh1234 --passphrase zz", "x --note *** --passphrase ***"),
        ("x --deep '" + 300 * "[" + '{"key":1,"token":"zz"}' + 300 * "]" + "'", "x --deep ***"),
        ("python serve.py 'two words' $HOME/x", "python serve.py 'two words' $HOME/x"),
        ("x --api-key $(cat /run/key) --tp 8", "x --api-key *** --tp 8"),
        ("x --api-key=`cat /run/key` --tp 8", "x --api-key=*** --tp 8"),
        (
            'HF_TOKEN="$(cat /run/key)" x -e B_KEY=$(cat ~/b | head -1) y',
            "HF_TOKEN=*** x -e B_KEY=*** y",
        ),
        ("x --api-key <(cat $(echo /run/key)) --tp 8", "x --api-key *** --tp 8"),
        ("sh -c 'x --api-key `cat /k` --tp 8'", "sh -c 'x --api-key *** --tp 8'"),
        (
            "x --log $(date --token zz) ${HF_TOKEN:-zz yy}",
            "x --log $(date --token ***) ${HF_TOKEN:-***}",
        ),
    ],
)
def test_secrets_are_hidden_and_words_kept(typed: str, kept: str) -> None:
    assert hidden_launch(typed) == kept
    assert hidden_launch(kept) == kept


@pytest.mark.parametrize(
    "line", ["x 'unclosed", "x \\", "a=" * 5000 + "a", "x --api-key $(cat /k", "x --key `cat /k"]
)
def test_what_no_shell_could_split_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        hidden_launch(line)


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("it's run with --api-key abc --tp 8", "it's run with --api-key *** --tp 8"),
        ("--api-key=$(cat /run/key) on 8 GPUs", "--api-key=*** on 8 GPUs"),
        ("HF_TOKEN='a b' and tp=8", "HF_TOKEN=*** and tp=8"),
        ("https://me:pass@host/recipe?token=zz", "https://***@host/recipe?token=***"),
        ("sends Authorization: Basic YTpi to it", "sends Authorization: *** to it"),
        ('{"password": "a b", "max_tokens": 3}', '{"password": ***, "max_tokens": 3}'),
        ("with sk-abcdefgh1234, hf_abcdefgh1234", "with ***, ***"),
        (
            "prefix cache off; 8,192 batched tokens: see https://h/a",
            "prefix cache off; 8,192 batched tokens: see https://h/a",
        ),
    ],
)
def test_secrets_of_free_texts_are_hidden(typed: str, kept: str) -> None:
    assert hidden_text(typed) == kept
    assert hidden_text(kept) == kept
