#!/usr/bin/env python3
"""What `stalld report` costs: bench.py STALLD [--lines N] > TABLE; the numbers go to Benchmarks/results/report.json.

Lines as of 1000 hosts (generate.py), long and tiny, in a file that the kernel has in memory; seconds and peak memory are those of time -v.
Beside it jq, which reads the same lines and counts them by culprit and nothing more.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser()
parser.add_argument("stalld", help="the command")
parser.add_argument("--lines", type=int, default=1_000_000)
options = parser.parse_args()
STALLD, LINES = options.stalld, options.lines
# Before it has measured for minutes.
if missing := [name for name in ("jq", "time") if not shutil.which(name)]:
    sys.exit(f"bench.py: {' and '.join(missing)} not installed: apt-get install {' '.join(missing)}")
if not shutil.which(STALLD):
    sys.exit(f"bench.py: {STALLD} not found: run `swift build --configuration release --product stalld`")

HERE = pathlib.Path(__file__).parent
JQ = 'reduce (inputs | select(.event.name == "stall.ended")) as $r ({}; .[$r.stall.culprit] += $r.stall.duration_ms) | length'


def measure(command):
    run = subprocess.run(["time", "-v"] + command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(f"{command}: {run.stderr}")
    wall = re.search(r"Elapsed \(wall clock\).*: (?:(\d+):)?(\d+):([\d.]+)", run.stderr)
    seconds = int(wall[1] or 0) * 3600 + int(wall[2]) * 60 + float(wall[3])
    user = float(re.search(r"User time \(seconds\): ([\d.]+)", run.stderr)[1])
    system = float(re.search(r"System time \(seconds\): ([\d.]+)", run.stderr)[1])
    return seconds, user + system, int(re.search(r"Maximum resident set size \(kbytes\): (\d+)", run.stderr)[1]) / 1000


results = []


def note(benchmark, subject, measured, bars=(None, None, None)):
    for (unit, name), value, bar in zip((("s", "time"), ("s", "processor time"), ("MB", "peak memory")), measured, bars):
        results.append({
            "benchmark": f"{benchmark}, {name}", "subject": subject, "unit": unit, "value": round(value, 2),
            "target": bar, "pass": None if bar is None else value <= bar, "ratio": None,
        })
    print(f"{benchmark:28} {subject:16} {measured[0]:7.2f} s  {measured[1]:7.2f} s of processors  {measured[2]:6.0f} MB")


with tempfile.TemporaryDirectory() as directory:
    for kind, options in (("1.5 to 2.5 KB", []), ("tiny", ["--tiny"])):
        path = pathlib.Path(directory) / "reports.jsonl"
        with path.open("w") as file:
            subprocess.run([sys.executable, str(HERE / "generate.py"), str(LINES)] + options, stdout=file, check=True)
        name = f"{LINES} lines, {kind}"
        measure(["cat", str(path)])
        bars = (10, None, 200) if LINES == 1_000_000 else (None, None, None)
        note(name, "stalld report", min(measure([STALLD, "report", str(path)]) for _ in range(3)), bars)
        note(name, "jq", measure(["jq", "-n", JQ, str(path)]))

(HERE.parent / "results" / "report.json").write_text(json.dumps(results, indent=2) + "\n")
