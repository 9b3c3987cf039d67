"""What a careless or hostile person types: one row an error.

Each ends with its exit code and code (None: click's own), and names what to mend. Standard output
stays empty, nothing is written, and nobody sees a traceback; the sentences are in
``tests/goldens/outputs/errors.txt``.
"""

import re
import shlex
from pathlib import Path

import pytest
from command_line import finished
from golden_files import Goldens

NINES = "9" * 5000
AT_NOBODY = ("--url", "http://127.0.0.1:9", "--wait", "0s")

Row = tuple[str | tuple[str, ...], int, str, str | None]

TABLE: tuple[Row, ...] = (
    # argv, exit code, what is named, code
    ("plan --concurrency 99999999999", 2, "concurrency", "levels-unfit"),
    ("run --virtual --concurrency 999999999999999999999", 2, "concurrency", "levels-unfit"),
    ("sweep --virtual --concurrency 0", 2, "concurrency", "levels-unfit"),
    ("sweep --virtual --concurrency a,b", 2, "concurrency", "levels-unfit"),
    ("sweep --virtual --concurrency 4,-1", 2, "concurrency", "levels-unfit"),
    ("sweep --virtual --concurrency ''", 2, "concurrency", "levels-unfit"),
    ("sweep --virtual --concurrency 2,2", 2, "concurrency", "level-twice"),
    ("sweep --concurrency 1_0", 2, "concurrency", "levels-unfit"),
    ("sweep --concurrency ٣", 2, "concurrency", "levels-unfit"),
    ("sweep --concurrency 1,", 2, "concurrency", "levels-unfit"),
    ("plan --concurrency auto", 2, "sweep", "auto-without-sweep"),
    ("sweep --workers 1_0", 2, "workers", "workers-unfit"),
    (("sweep", "--workers", NINES), 2, "workers", "workers-unfit"),
    ("sweep --virtual --timestamps kernel", 2, "--virtual", "virtual-with-kernel-timestamps"),
    ("sweep --virtual --workers 2", 2, "--workers", "workers-in-virtual-time"),
    ("sweep --virtual --keepalive 4y", 2, "--keepalive", None),
    ("sweep --virtual --timeout nan", 2, "--timeout", None),
    ("check --rate nan", 2, "--rate", None),
    ("sweep --virtual --timeout 1e300", 2, "--timeout", None),
    ("sweep --virtual --keepalive inf", 2, "--keepalive", None),
    ("sweep --virtual --keepalive 1_0", 2, "--keepalive", None),
    ("sweep --virtual --gpus 999999999999999999999", 2, "--gpus", None),
    (("sweep", "--virtual", "--gpus", NINES), 2, "--gpus", None),
    ("sweep --virtual --gpus ٣", 2, "--gpus", None),
    ("sweep --virtual --max-context 999999999999999999999", 2, "--max-context", None),
    ("plan --max-context 1_000", 2, "--max-context", None),
    ("sweep --virtual --starts 0", 2, "--starts", None),
    ("plan --starts 101", 2, "--starts", None),
    ("run --virtual --starts 2.0", 2, "--starts", None),
    ("check --rate ٣", 2, "--rate", None),
    ("simulate --port 0 --cache-blocks 1_0", 2, "--cache-blocks", None),
    ("simulate --port 0 --cache-blocks 99999999999999999999", 2, "cache_blocks",
     "model-out-of-range"),
    ("simulate --port 0 --step-base-ms nan", 2, "--step-base-ms", None),
    ("sweep --virtual --at 3_0", 2, "--at", "targets-unfit"),
    ("compare a b --price a=1_0", 2, "--price", "named-number-not-positive"),
    ("sweep --virtual --model ''", 2, "--model", "text-empty"),
    (("run", *AT_NOBODY, "--model", " "), 2, "--model", "text-empty"),
    ("sweep --virtual --salt ''", 2, "--salt", "text-empty"),
    (("sweep", "--virtual", "--salt", "\udcff"), 2, "argument", "argument-not-utf8"),
    (("run", *AT_NOBODY, "--model", "\udcff"), 2, "argument", "argument-not-utf8"),
    (("plan", "--traces", "/tmp/\udcff"), 2, "argument", "argument-not-utf8"),
    ("traces generate /nosuch/x.jsonl", 2, "/nosuch", "directory-missing"),
    ("traces import --out /nosuch/x.jsonl", 2, "/nosuch", "directory-missing"),
    ("plan --url x", 2, "--url", "option-of-another-command"),
    ("system --fact a=b", 2, "--fact", "option-of-another-command"),
    ("traces stats --url x", 2, "--url", "option-of-another-command"),
    ("traces generate /proc/x.jsonl", 2, "/proc/x.jsonl", "corpus-unwritable"),
    ("traces generate x.txt", 2, "x.txt", "corpus-name-unfit"),
    ("sweep --virtual --scenario nope", 2, "agentx-fast", "scenario-unknown"),
    ("sweep --virtual --traces missing", 2, "missing", "traces-missing"),
    ("sweep --virtual --override window_s", 2, "window_s", "override-without-value"),
    ("sweep --virtual --override windows=5", 2, "windows", "rule-unknown"),
    ("sweep --virtual --override window_s=long", 2, "window_s", "rule-out-of-range"),
    (("sweep", "--virtual", "--override", f"seed={NINES}"), 2, "seed", "rule-out-of-range"),
    (("sweep", "--virtual", "--override", f"seed={'[' * 3000}"), 2, "seed", "rule-out-of-range"),
    ("sweep --virtual --override start_fraction=01", 2, "start_fraction", "start-fraction-unfit"),
    (("sweep", "--virtual", "--override", "window_s=3\nseed=5"), 2, "window_s",
     "rule-out-of-range"),
    (("sweep", *AT_NOBODY, "--virtual"), 2, "--url", "virtual-with-url"),
    ("sweep --url ftp://nonsense", 2, "nonsense", "url-not-of-server"),
    ("sweep --virtual --tag a", 2, "'a'", "tag-without-value"),
    ("sweep --virtual --override window_s=9y", 2, "window_s", "rule-out-of-range"),
    ("swep", 2, "sweep", None),
    ("sweep --url http://u:secret@h", 2, "h", "url-with-password"),
    ("sweep --virtual --config missing.toml", 2, "missing.toml", "file-unreadable"),
    ("run --virtual --live-history", 2, "--virtual", "live-history-without-server"),
    ("plan --simulate --live-history", 2, "--simulate", "live-history-without-server"),
    ("run --endpoint completions --live-history", 2, "--endpoint", "live-history-of-completions"),
    ("sweep --tool-messages --live-history", 2, "--tool-messages",
     "live-history-with-tool-messages"),
    ("plan --tool-messages --live-history", 2, "--tool-messages",
     "live-history-with-tool-messages"),
    # An empty path, as of a shell variable nobody set, is not the directory one happens to be in.
    ("traces stats ''", 2, "CORPUS", None),
    ("traces check ''", 2, "CORPUS", None),
    ("traces pack '' x.jsonl", 2, "CORPUS", None),
    ("traces generate ''", 2, "FILE", None),
    ("run --out ''", 2, "--out", None),
    ("sweep --out ''", 2, "--out", None),
    ("run --config ''", 2, "--config", None),
    ("run --traces ''", 2, "--traces", None),
    ("run --calibration ''", 2, "--calibration", None),
    ("run --tokenizer ''", 2, "--tokenizer", None),
    ("plan --traces ''", 2, "--traces", None),
    ("report ''", 2, "DIRECTORY", None),
    ("compare '' ''", 2, "RUN", None),
    # Port 9 of loopback: nothing listens there.
    (("run", *AT_NOBODY), 3, "127.0.0.1:9", "server-unreachable"),
)  # fmt: skip


def words(argv: str | tuple[str, ...]) -> list[str]:
    return shlex.split(argv) if isinstance(argv, str) else list(argv)


def code_in(errors: str) -> str | None:
    found = re.search(r"^agentx-replay: .* \[([a-z0-9-]+)\]\.$", errors, re.MULTILINE)
    return found and found[1]


def test_an_error_has_its_exit_code_and_code_and_names_what_to_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goldens: Goldens
) -> None:
    monkeypatch.chdir(tmp_path)
    parts, wrong = [], []
    for argv, exit_code, named, code in TABLE:
        ended = finished(*words(argv), COLUMNS="80")
        found = (ended.returncode, code_in(ended.stderr), ended.stdout, named in ended.stderr)
        if found != (exit_code, code, "", True):
            wrong.append((argv, *found))
        typed = ascii(shlex.join(words(argv)))[1:-1]
        shown = typed if len(typed) < 100 else f"{typed[:80]}…"
        parts.append(f"$ agentx-replay {shown}\n{ended.stderr}")
    assert wrong == []
    assert not any(tmp_path.iterdir())
    assert "secret" not in "".join(part.partition("\n")[2] for part in parts)
    goldens.check_text("outputs/errors", "\n".join(parts))
