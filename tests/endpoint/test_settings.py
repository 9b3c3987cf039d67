"""URLs, proxies and settings as people give them."""

import pytest
from refusals import refuses

from agentx_replay.endpoint.scrape import page_url
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import BaseUrl, parse_base_url, refuse_proxy, refuse_twice
from agentx_replay.errors import UsageError

URL = BaseUrl("http", "h", 80, "/v1")


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("http://h:8000", "http://h:8000/v1"),
        ("http://h:8000/", "http://h:8000/v1"),
        (" http://h:8000/v1/ ", "http://h:8000/v1"),
        ("http://h/v1/chat/completions", "http://h/v1"),
        ("https://H.example/api/v3", "https://h.example/api/v3"),
        ("https://h:443", "https://h/v1"),
        ("h:8000", "http://h:8000/v1"),
        ("http://[::1]:9", "http://[::1]:9/v1"),
    ],
)
def test_a_url_is_understood_with_or_without_its_path(text: str, printed: str) -> None:
    assert str(parse_base_url(text)) == printed


@pytest.mark.parametrize(
    "text", ["", "ftp://h", "http://", "http://h:x", "http://h:99999", "http://h/a b"]
)
def test_what_is_no_url_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="give it as http://HOST:PORT"):
        parse_base_url(text)


def test_credentials_in_a_url_are_refused_and_not_repeated() -> None:
    with refuses("url-with-password") as raised:
        parse_base_url("http://me:secret@h:8000")
    assert "secret" not in str(raised.value)
    with refuses("url-with-password") as raised:
        parse_base_url("me:secret@h:8000")
    assert "secret" not in str(raised.value)
    for way_out in ("http://***@h:8000", "OPENAI_API_KEY", "--api-key-env", "--header"):
        assert way_out in str(raised.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("http://me:secret@h:8000", r"http://\*\*\*@h:8000 carries a user name or password"),
        ("http://h/metrics?key=secret", r"goes on with a query or fragment \(\?…\), which would"),
        ("ftp://h", "'ftp://h' is not the URL of a server"),
    ],
)
def test_of_a_metrics_page_it_is_said_what_a_page_can_be_sent(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told) as raised:
        page_url(text)
    assert "secret" not in str(raised.value)
    assert raised.value.code == "metrics-url-unfit"


@pytest.mark.parametrize(
    "text",
    ["http://h/v1?api_key=sekret", "http://h?sekret", "https://a:sekret@h/#sekret", "h:80?sekret"],
)
def test_a_query_in_a_url_is_refused_and_not_repeated(text: str) -> None:
    with refuses("url-with-query") as raised:
        parse_base_url(text)
    assert "sekret" not in str(raised.value)


def test_a_page_without_a_path_is_the_servers_metrics() -> None:
    assert str(page_url("http://h:8000/")) == "http://h:8000/metrics"
    assert str(page_url("http://h:8000/engine/0")) == "http://h:8000/engine/0"


SAME = (
    "http://localhost:8000/", "http://127.0.0.1:8000", "http://[::1]:8000/v1", "http://0.0.0.0:8000",
    "http://127.1:8000", "http://2130706433:8000", "http://0x7f.0.0.1:8000", "http://0:8000",
)  # fmt: skip


@pytest.mark.parametrize("other", SAME)
@pytest.mark.parametrize("one", SAME)
def test_names_of_this_machine_with_one_port_are_one_server(one: str, other: str) -> None:
    with refuses("url-twice", "--url"):
        refuse_twice("--url", [URL, parse_base_url(one), parse_base_url(other)])


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (
            "http://10.1:8000",
            "http://10.0.0.1:8000",
            "--url names one place twice, as http://10.1:8000/v1 and http://10.0.0.1:8000/v1; "
            "give each once",
        ),
        ("https://H", "https://h:443/v1/", "--url names https://h/v1 twice; give each once"),
        (
            "http://localhost",
            "http://127.0.0.1:80",
            "--url names one place twice, as http://localhost/v1 and http://127.0.0.1/v1; "
            "give each once",
        ),
    ],
)
def test_the_names_are_told(one: str, other: str, told: str) -> None:
    with refuses("url-twice") as raised:
        refuse_twice("--url", [parse_base_url(one), parse_base_url(other)])
    assert str(raised.value) == told


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://localhost:8000", "http://localhost:8001"),
        ("http://localhost:8000/a/v1", "http://localhost:8000/b/v1"),
        ("http://127.0.0.1:8000", "http://127.0.0.2:8000"),
        ("http://a.example", "http://b.example"),
    ],
)
def test_what_may_be_another_server_is_one(one: str, other: str) -> None:
    refuse_twice("--url", [parse_base_url(one), parse_base_url(other)])


def test_texts_in_the_body_under_a_secret_name_are_secrets_too() -> None:
    body = {
        "api_key": "abcdefg",
        "extra": [{"hf_token": "hijklmn"}],
        "min_tokens": "opqrstu",
    }
    settings = EndpointSettings(parse_base_url("http://h"), "m", extra_body=body)
    assert settings.secrets == ("abcdefg", "hijklmn")


REMOTE = "http://gpu.example:8000"


@pytest.mark.parametrize(
    ("url", "environment", "refused"),
    [
        (REMOTE, {}, False),
        (REMOTE, {"http_proxy": ""}, False),
        (REMOTE, {"https_proxy": "http://p"}, False),
        (REMOTE, {"HTTP_PROXY": "http://p"}, True),
        (REMOTE, {"ALL_PROXY": "socks5://p"}, True),
        (REMOTE, {"http_proxy": "http://p", "NO_PROXY": "other,.example"}, False),
        (REMOTE, {"http_proxy": "http://p", "no_proxy": "gpu.example:8000"}, False),
        (REMOTE, {"http_proxy": "http://p", "no_proxy": "*"}, False),
        (REMOTE, {"http_proxy": "http://p", "no_proxy": "u.example,"}, True),
        ("http://localhost:1", {"http_proxy": "http://p"}, False),
        ("http://127.0.0.5:1", {"http_proxy": "http://p"}, False),
        ("http://127.1:1", {"http_proxy": "http://p"}, False),
    ],
)
def test_a_proxy_in_the_way_is_refused(
    url: str, environment: dict[str, str], refused: bool
) -> None:
    if not refused:
        refuse_proxy(parse_base_url(url), environment)
        return
    with refuses("proxy-set", "gpu.example"):
        refuse_proxy(parse_base_url(url), environment)


def test_the_key_and_the_headers_are_not_in_the_repr() -> None:
    shown = repr(EndpointSettings(URL, "m", api_key="sk-1", extra_headers=(("X", "secret"),)))
    assert "sk-1" not in shown
    assert "secret" not in shown


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"timeout_s": 60.0}, "a timeout of 60 s would cut off"),
        ({"extra_body": {"stream": False}}, "the body field 'stream' is decided"),
        ({"extra_body": {"a": object()}}, "cannot be written as JSON"),
        ({"extra_headers": (("X", "a\r\nY: b"),)}, "the header 'X' cannot be sent"),
        ({"extra_headers": (("X Y", "a"),)}, "the header 'X Y' cannot be sent"),
        ({"extra_headers": (("Content-Length", "1"),)}, "'Content-Length' is set by"),
        ({"api_key": "k\n"}, "the API key holds characters"),
    ],
)
def test_settings_that_cannot_be_are_refused(more: dict[str, object], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        EndpointSettings(URL, "m", **more)  # type: ignore[arg-type]


def test_a_timeout_of_six_hours_is_allowed() -> None:
    assert EndpointSettings(URL, "m", timeout_s=21_600.0).timeout_s == 21_600.0
