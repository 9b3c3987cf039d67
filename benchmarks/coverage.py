"""How often 95 % intervals hold the truth: 1,000 sweeps of 32 lanes in virtual time.

    python benchmarks/coverage.py [SWEEPS]

writes benchmarks/results/coverage.json. About three minutes. The population, the truth and a
sweep are in tests/interval_coverage.py.
"""

import sys
from dataclasses import fields
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT), str(ROOT / "tests")]

from interval_coverage import LEVELS, TARGET, WINDOW_S, Held, sweep, truth  # noqa: E402

from benchmarks.results_file import write_result  # noqa: E402


def main() -> None:
    """Replay the sweeps and write how many intervals held."""
    sweeps = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    known = truth(seed=1)
    held = [sweep(1000 + number, known) for number in range(sweeps)]
    names = [field.name for field in fields(Held)]
    result = {
        "sweeps": sweeps,
        "levels": LEVELS,
        "window_s": WINDOW_S,
        "target_tokens_per_s_per_user": TARGET,
        "truth": dict(zip(names, known, strict=True)),
        "held": {name: sum(getattr(each, name) for each in held) for name in names},
    }
    print(write_result("coverage", result))


if __name__ == "__main__":
    main()
