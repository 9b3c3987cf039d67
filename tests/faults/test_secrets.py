"""Keys reach the server and nothing else; names from a trace or a server stay inside."""

import asyncio
import html
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest
from command_line import SHORT, finished, started
from small_corpus import request, session

from agentx_replay.cli.redaction import redacted_command
from agentx_replay.endpoint.outcome import short
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import parse_base_url
from agentx_replay.simulator.process import launch_simulator
from agentx_replay.simulator.server import ServerConfig

KEY = "sk-lookfor-me-4711"
TEAM = "team-password-4712"
SECRETS = (KEY, TEAM)
HOSTILE = '<script>alert("x")</script>'


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        (["--header", "Authorization: Bearer abc"], ("--header", "Authorization: ***")),
        (["--header=X-Team: abc", "--gpus", "8"], ("--header=X-Team: ***", "--gpus", "8")),
        (["--header", "abc"], ("--header", "***")),
        (["--header", "--header", "--header", "A: b"], ("--header", "***", "--header", "A: ***")),
        (["--url", "https://me:pw@host/v1"], ("--url", "https://***@host/v1")),
        (["--metrics-url=http://me:pw@h/"], ("--metrics-url=http://***@h/",)),
        (["--body", '{"a": 1}'], ("--body", '{"a": 1}')),
        (["--body", '{"api_key": "abc"}'], ("--body", '{"api_key":"***"}')),
        (['--body={"x":[{"hf_token":"abc"}]}'], ('--body={"x":[{"hf_token":"***"}]}',)),
        (["--body", '{"max_tokens": "9"}'], ("--body", '{"max_tokens": "9"}')),
        (["--body", '{"stop_token_ids": ["9"]}'], ("--body", '{"stop_token_ids": ["9"]}')),
        (["--body", '{"api_key": "abc"'], ("--body", "***")),
        (["--note", "key sk-abcdefgh12"], ("--note", "key ***")),
        (["--tag=password=abc"], ("--tag=password=***",)),
        (["--body", "--header", "--header", "A: b"], ("--body", "***", "--header", "A: ***")),
    ],
)
def test_a_command_is_kept_without_the_values_of_its_headers(
    typed: list[str], kept: tuple[str, ...]
) -> None:
    assert redacted_command(typed) == kept


def test_what_is_kept_to_oneself_is_known_by_the_name_of_its_header() -> None:
    headers = (
        ("Authorization", "Bearer abcdef"), ("X-Api-Key", "ghijkl"), ("Cookie", "mnopqr"),
        ("X-Team", "stuvwx"), ("X-Auth-Mode", "off"),
    )  # fmt: skip
    settings = EndpointSettings(parse_base_url("http://h"), "m", "yz0123", extra_headers=headers)
    assert settings.secrets == ("yz0123", "Bearer abcdef", "ghijkl", "mnopqr", "abcdef")
    assert all(secret not in repr(settings) for secret in settings.secrets)


def test_a_placeholder_for_a_key_is_no_secret() -> None:
    assert EndpointSettings(parse_base_url("http://h"), "m", "EMPTY").secrets == ()


def everything_in(directory: Path) -> Iterator[tuple[Path, bytes]]:
    return ((path, path.read_bytes()) for path in directory.rglob("*") if path.is_file())


def _command_lines() -> bytes:
    """What ``ps`` shows of every process here."""
    found = b""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += entry.read_bytes()
        except OSError:  # it has ended
            continue
    return found


def test_a_run_leaves_no_secret_in_files_on_screen_or_in_process_titles(tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    config.write_text(f'header = ["X-Team-Password: {TEAM}"]\n')
    simulator = launch_simulator(ServerConfig(model=HOSTILE))
    traces = tmp_path / "traces"
    traces.mkdir()
    hostile = session(f"../../{HOSTILE}", *(request(n, range(n + 1)) for n in range(6)))
    (traces / "a.json").write_bytes(orjson.dumps(hostile))
    out = tmp_path / "runs" / "out"
    try:
        arguments = (
            "run", "--url", simulator.url, "--config", str(config), "--concurrency", "2",
            "--workers", "2", "--traces", str(traces), "--override", "window_s=1", *SHORT,
            "--out", str(out),
        )  # fmt: skip
        with started(tmp_path, *arguments, OPENAI_API_KEY=KEY) as command:
            command.wait_until_it_says("c=2 window")
            titles = _command_lines()
            assert command.ended() in (0, 1)
    finally:
        simulator.close()
    config.unlink()
    for secret in SECRETS:
        assert secret.encode() not in titles
        for path, content in everything_in(tmp_path):
            assert secret.encode() not in content, path
    page = (out / "report.html").read_text()
    assert HOSTILE not in page
    assert html.escape(HOSTILE).replace("&quot;", "&#34;") in page
    outside = {path.name for path in tmp_path.iterdir()} | {p.name for p in (out / "..").iterdir()}
    assert outside == {"traces", "runs", "stdout", "stderr", "out"}


@contextmanager
def _echo_server() -> Iterator[int]:
    """A server that fails every request and says back all it was told."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        body = orjson.dumps({"error": {"message": head.decode()}})
        writer.write(b"HTTP/1.1 500 Oops\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        writer.close()

    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(answer, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_a_server_that_says_the_key_back_does_not_put_it_on_the_screen(tmp_path: Path) -> None:
    with _echo_server() as port:
        result = finished(
            "run", "--url", f"http://127.0.0.1:{port}", "--model", "m",
            "--header", f"X-Team-Password: {TEAM}", "--out", str(tmp_path / "o"),
            OPENAI_API_KEY=KEY,
        )  # fmt: skip
    assert result.returncode == 3
    assert "***" in result.stderr
    assert not any(secret in result.stdout + result.stderr for secret in SECRETS)


@pytest.mark.parametrize(
    "said",
    [KEY, f"{KEY[:9]}\n {KEY[9:]}", f"\\u{ord(KEY[0]):04x}{KEY[1:]}", KEY.upper(), "x" * 490 + KEY],
)
def test_a_key_that_a_server_alters_is_in_no_text_on_record(said: str) -> None:
    text = short(f"HTTP 500: {said}", (KEY,))
    assert KEY[9:].lower() not in text.lower()
    assert len(text) <= 500


def test_the_simulator_binds_loopback_unless_told_otherwise() -> None:
    assert ServerConfig().host == "127.0.0.1"
