"""Real proxies in front of a server: each started from a configuration of a few lines.

They come from Debian (``.ci/long`` installs them), run in the foreground on the loopback, and
write only to the directory that they are given.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_DEADLINE_S = 20.0
_MODULES = Path("/usr/lib/apache2/modules")


@dataclass(frozen=True, slots=True)
class Proxy:
    """A program with its arguments and configuration, in which ``{port}``, ``{upstream}`` (a port)
    and ``{dir}`` are filled in.
    """

    command: tuple[str, ...]
    config: str


_HAPROXY = """\
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
{options}
listen front
  bind 127.0.0.1:{{port}}
  server s 127.0.0.1:{{upstream}}
"""
_NGINX = """\
user root;
daemon off;
pid {{dir}}/pid;
error_log {{dir}}/log;
events {{{{ }}}}
http {{{{
  access_log off;
  client_max_body_size 64m;
  client_body_temp_path {{dir}}/body;
  proxy_temp_path {{dir}}/proxy;
  fastcgi_temp_path {{dir}}/fastcgi;
  uwsgi_temp_path {{dir}}/uwsgi;
  scgi_temp_path {{dir}}/scgi;
{options}
  server {{{{
    listen 127.0.0.1:{{port}};
    location / {{{{ proxy_pass http://127.0.0.1:{{upstream}}; }}}}
  }}}}
}}}}
"""
_LIGHTTPD = """\
server.document-root = "{{dir}}"
server.port = {{port}}
server.bind = "127.0.0.1"
server.errorlog = "{{dir}}/log"
server.modules = ("mod_proxy")
{options}
proxy.server = ("" => (("host" => "127.0.0.1", "port" => {{upstream}})))
"""
_APACHE = f"""\
ServerRoot {{dir}}
ServerName localhost
Listen 127.0.0.1:{{port}}
PidFile {{dir}}/pid
ErrorLog {{dir}}/log
User nobody
LoadModule mpm_event_module {_MODULES}/mod_mpm_event.so
LoadModule authz_core_module {_MODULES}/mod_authz_core.so
LoadModule proxy_module {_MODULES}/mod_proxy.so
LoadModule proxy_http_module {_MODULES}/mod_proxy_http.so
LoadModule deflate_module {_MODULES}/mod_deflate.so
LoadModule filter_module {_MODULES}/mod_filter.so
{{{{options}}}}
ProxyPass / http://127.0.0.1:{{upstream}}/
"""
_CADDY = """\
{{
  admin off
  auto_https off
}}
:{port} {{
  bind 127.0.0.1
  reverse_proxy 127.0.0.1:{upstream}
}}
"""


def _haproxy(options: str = "") -> Proxy:
    return Proxy(("haproxy", "-db", "-f", "{dir}/config"), _HAPROXY.format(options=options))


def _nginx(options: str = "") -> Proxy:
    return Proxy(("nginx", "-c", "{dir}/config"), _NGINX.format(options=options))


def _lighttpd(options: str = "") -> Proxy:
    return Proxy(("lighttpd", "-D", "-f", "{dir}/config"), _LIGHTTPD.format(options=options))


def _apache(options: str = "") -> Proxy:
    config = _APACHE.replace("{{options}}", options)
    return Proxy(("apache2", "-X", "-f", "{dir}/config"), config)


PROXIES = {
    "haproxy, defaults": _haproxy(),
    "haproxy, option http-no-delay": _haproxy("  option http-no-delay"),
    "haproxy, compression gzip": _haproxy(
        "  compression algo gzip\n  compression type text/event-stream"
    ),
    "nginx, defaults": _nginx(),
    "nginx, proxy_buffering off": _nginx("  proxy_buffering off;"),
    "nginx, gzip": _nginx("  gzip on; gzip_types text/event-stream; gzip_proxied any;"),
    "lighttpd, defaults": _lighttpd(),
    "lighttpd, server.stream-response-body = 2": _lighttpd("server.stream-response-body = 2"),
    "apache, defaults": _apache(),
    "apache, mod_deflate": _apache("AddOutputFilterByType DEFLATE text/event-stream"),
    "caddy, defaults": Proxy(("caddy", "run", "--adapter", "caddyfile", "--config", "{dir}/config"),
                             _CADDY),
}  # fmt: skip


@contextmanager
def proxied(proxy: Proxy, upstream: int, directory: Path) -> Iterator[str]:
    """Start a proxy to a port of the loopback; yield its URL when it listens."""
    directory.mkdir()
    port = _free_port()
    known = {"port": port, "upstream": upstream, "dir": directory}
    (directory / "config").write_text(proxy.config.format(**known))
    command = [part.format(**known) for part in proxy.command]
    environment = {**os.environ, "HOME": str(directory), "PATH": f"{os.environ['PATH']}:/usr/sbin"}
    program = shutil.which(command[0], path=environment["PATH"])
    assert program is not None, f"{command[0]} is not installed"
    with (directory / "printed").open("wb") as printed:
        process = subprocess.Popen(
            [program, *command[1:]],
            stdout=printed,
            stderr=printed,
            env=environment,
            start_new_session=True,
        )
    try:
        _wait_for(port, process, directory)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port: int = held.getsockname()[1]
        return port


def _wait_for(port: int, process: "subprocess.Popen[bytes]", directory: Path) -> None:
    deadline_s = time.monotonic() + _DEADLINE_S
    while True:
        assert process.poll() is None, (directory / "printed").read_text()
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            assert time.monotonic() < deadline_s, (directory / "printed").read_text()
            time.sleep(0.05)
        else:
            return
