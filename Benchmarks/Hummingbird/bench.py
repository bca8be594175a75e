#!/usr/bin/env python3
"""Measures the hummingbird-service example under wrk, and checks what it reports.

    bench.py throughput PROGRAM [--pairs 10] [--seconds 8]
    bench.py accuracy PROGRAM [--minutes 10] [--delay 20]

`throughput` compares the service with and without the monitor, each in a process of its own: one after the other in alternating order, and
both at the same time, which a busy machine disturbs less. The services have processor 0, wrk processor 1.
`accuracy` sends requests of which one in a thousand blocks for 900 ms, and compares the reports with the number of these. Each of 16
connections waits 20 ms between two requests, so that the next thousandth comes when the one before is answered: requests never hold
all threads of the pool. With `--delay 0` they do, which is also reported, as `cooperative-pool`.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

BLOCKED_FUNCTION = "currentPrice()"


class Server:
    """One process of the service."""

    def __init__(self, program, port, processors, **settings):
        environment = dict(os.environ, LOG_LEVEL="error")
        environment.update({"STALLMONITOR_" + name.upper(): value for name, value in settings.items()})
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            ["taskset", "--cpu-list", processors, program, str(port)], env=environment, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while True:
            try:
                self.get("/health")
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    sys.exit("the service does not answer")
                time.sleep(0.05)

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            return answer.read().decode()

    def processor_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=120)


def load(server, path, seconds, connections, processors, script=None):
    """Sends requests for a time; returns how many were answered, how many a second, and what the service used for each."""
    used = server.processor_seconds()
    output = subprocess.run(
        ["taskset", "--cpu-list", processors, "wrk", "--threads", "1", "--connections", str(connections), "--duration",
         f"{seconds}s", "--timeout", "60s", *(["--script", script] if script else []), server.url + path],
        check=True, capture_output=True, text=True).stdout
    used = server.processor_seconds() - used
    count = int(re.search(r"(\d+) requests in", output)[1])
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", output)[1])
    errors = re.search(r"(Socket errors|Non-2xx).*", output)
    if errors:
        print(errors[0], file=sys.stderr)
    return count, rate, used / count * 1e6


def quartiles(values):
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": round(middle, 4), "quartiles": [round(low, 4), round(high, 4)]}


def throughput(options):
    apart, together, costs = [], [], []
    for pair in range(options.pairs):
        servers = {
            enabled: Server(options.program, options.port + index, "0", enabled=enabled)
            for index, enabled in enumerate(("true", "false"))}
        order = ["true", "false"] if pair % 2 else ["false", "true"]

        def measure(enabled, seconds=options.seconds):
            return load(servers[enabled], "/health", seconds, options.connections, "1")

        for enabled in order:
            measure(enabled, 1)
        one = {enabled: measure(enabled) for enabled in order}
        with concurrent.futures.ThreadPoolExecutor() as pool:
            both = dict(zip(order, pool.map(measure, order)))
        for server in servers.values():
            server.stop()
        apart.append(one["true"][1] / one["false"][1])
        together.append(both["true"][1] / both["false"][1])
        costs.append(both["true"][2] / both["false"][2])
        print(
            f"pair {pair + 1}: {one['true'][1]:.0f} / {one['false'][1]:.0f} requests a second = {apart[-1]:.3f}; "
            f"at the same time {both['true'][1]:.0f} / {both['false'][1]:.0f} = {together[-1]:.3f}, "
            f"{both['true'][2]:.2f} / {both['false'][2]:.2f} us of processor time a request = {costs[-1]:.3f}",
            flush=True)
    result = {
        "pairs": options.pairs, "seconds": options.seconds, "one_after_the_other": {"requests_per_second": quartiles(apart)},
        "at_the_same_time": {"requests_per_second": quartiles(together), "processor_time_per_request": quartiles(costs)}}
    print(json.dumps(result, indent=1))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


def accuracy(options):
    with tempfile.TemporaryDirectory() as directory:
        reports = pathlib.Path(options.reports or directory + "/reports.jsonl")
        reports.unlink(missing_ok=True)
        script = pathlib.Path(directory) / "delay.lua"
        script.write_text(f"function delay() return {options.delay} end\n")
        everywhere = f"0-{os.cpu_count() - 1}"
        server = Server(
            options.program, options.port, everywhere, threshold="250ms", repeat_window="0s", budget="0",
            sink=f"file:{reports}")
        answered, rate, _ = load(
            server, "/offer", int(options.minutes * 60), options.connections, everywhere,
            str(script) if options.delay else None)
        time.sleep(3)  # for requests that block when wrk ends
        number = int(re.match(r"offer (\d+):", server.get("/offer"))[1])
        code = server.stop()
        lines = [json.loads(line) for line in reports.read_text().splitlines()]
    blocked = number // 1000
    ended = [line for line in lines if line["event"]["name"] == "stall.ended"]
    right = [
        line for line in ended
        if line["loop"]["kind"] == "task-pool" and line["stall"].get("culprit", "").endswith(BLOCKED_FUNCTION + " -> Swift.Int")]
    right_ids = {line["stall"]["id"] for line in right}
    others = [line for line in lines if line.get("stall", {}).get("id") not in right_ids]
    durations = [line["stall"]["duration_ms"] for line in right]
    print(json.dumps({
        "answered": answered, "requests": number, "requests_a_second": round(rate), "exit": code,
        "blocked": blocked, "reported": len(right), "duration_ms": [min(durations), max(durations)] if right else [],
        "others": collections.Counter(f'{line["event"]["name"]} {line["loop"]["kind"]}' for line in others)}, indent=1))
    for line in others:
        print(line["@timestamp"], line["event"]["name"], line["message"], file=sys.stderr)
    sys.exit(0 if len(right) == blocked and not others and code == 0 else 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["throughput", "accuracy"])
    parser.add_argument("program")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--delay", type=int, default=20, help="milliseconds between two requests of a connection")
    parser.add_argument("--port", type=int, default=28080)
    parser.add_argument("--json", help="also write the ratios to this file")
    parser.add_argument("--reports", help="keep the report lines in this file")
    options = parser.parse_args()
    packages = {"taskset": "util-linux", "wrk": "wrk"}
    if missing := [name for name in packages if not shutil.which(name)]:
        sys.exit(f"bench.py: {' and '.join(missing)} not installed: apt-get install {' '.join(packages[name] for name in missing)}")
    if not shutil.which(options.program):
        sys.exit(f"bench.py: {options.program} not found: run `make bench-hummingbird`")
    {"throughput": throughput, "accuracy": accuracy}[options.what](options)


main()
