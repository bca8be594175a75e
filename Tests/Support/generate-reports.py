"""Writes report lines to standard output, the same ones each time.

    generate-reports.py fleet            two weeks of 1000 hosts, with known answers to the ten questions of a stall review
    generate-reports.py longest N [SEED] N different lines of exactly 8000 bytes
    generate-reports.py every-key        lines that together have every key of the contract

What is planted in the fleet stands at PLANTS; check-fleet.py knows it, and works out the rest from the lines.
"""

import datetime
import json
import random
import re
import sys

START = datetime.datetime(2026, 3, 2)
DAYS = 14
# The release 2.4.0 of orders goes out host by host on this day.
ROLLOUT = 7
HOSTS = {"orders": 400, "search": 250, "gateway": 200, "billing": 100, "media": 50}
MODULE = "/usr/lib/{0}/{0}"
BUILDS = {"2.3.0": "23" * 20, "2.4.0": "24" * 20, "1.0.0": "10" * 20}

# service, function, cause, stalls a host, typical milliseconds, and what is particular about it.
PLANTS = [
    # The worst by total time and hosts; the audit log holds the mutex.
    ("orders", "Ledger.flush() -> ()", "lock", 6, 900, {"holder": "AuditLog.write(_:) -> ()"}),
    # More time than the one above, on one host alone: bad for that host, and not the fleet's worst.
    ("media", "Transcoder.probe(_:) -> ()", "running", 700, 6000, {"hosts": ["media-0007"]}),
    # The most stalls, each short.
    ("search", "QueryPlan.compile() -> ()", "running", 16, 280, {}),
    # New in 2.4.0.
    ("orders", "PriceCache.rebuild() -> ()", "running", 3, 500, {"only": "2.4.0"}),
    # First seen after the release went out, on hosts that did not have it yet: not new in it.
    ("orders", "CartMerge.apply() -> ()", "io", 1, 400, {"only": "2.3.0", "days": (ROLLOUT, ROLLOUT + 1)}),
    # Five times as long since 2.4.0.
    ("orders", "OrderIndex.scan() -> ()", "io", 3, 300, {"slower": 5}),
    # Gone since 2.4.0.
    ("orders", "SessionStore.load() -> ()", "io", 2, 700, {"only": "2.3.0"}),
    # One host with a dying disk.
    ("gateway", "AccessLog.write(_:) -> ()", "io", 150, 800, {"hosts": ["gateway-0042"]}),
    ("gateway", "TLSHandshake.verify() -> ()", "running", 1, 300, {"repeated": 20}),
    # At three in the morning.
    ("billing", "Snapshot.copy() -> ()", "io", 8, 1200, {"hour": 3}),
    # Out of memory in mid-stall.
    ("billing", "ReportExport.render() -> ()", "fault", 1, 9000, {"hosts": [f"billing-{n:04}" for n in range(10, 17)], "fatal": True}),
    # The slowest service when it stalls.
    ("media", "FrameQueue.drain() -> ()", "starved", 2, 4000, {}),
    ("search", "Replica.sync() -> ()", "throttled", 1, 1500, {}),
]


def dumped(report):
    """The line as the monitor writes it: three decimals for milliseconds, and no control character (the journal takes DEL for one)."""
    text = json.dumps(report, ensure_ascii=False, separators=(",", ":")).replace("\x7f", "\\u007f")
    return re.sub(r'("[a-z_]+_ms":)([0-9.]+)', lambda found: f"{found[1]}{float(found[2]):.3f}", text)


def stamped(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f") + "789Z"


def frame(service, symbol, line, version):
    return {
        "symbol": symbol, "file": f"/src/{service}/{symbol.split('.')[0]}.swift", "line": line,
        "module": MODULE.format(service), "build_id": BUILDS[version], "offset": hex(0x1000 + 16 * line),
    }


def library(symbol, offset):
    return {"symbol": symbol, "module": "/lib/x86_64-linux-gnu/libc.so.6", "build_id": "ab" * 20, "offset": hex(offset)}


def base(chance, moment, service, version, host, sequence):
    return {
        "@timestamp": stamped(moment), "log.level": "warn", "message": "", "event": {"name": "stall.ended", "schema": "1.0"},
        "stall": {
            "id": f"{chance.getrandbits(128):032x}", "sequence": sequence, "threshold_ms": 250.0, "duration_ms": 0.0,
            "cause": "unknown", "evidence": {}, "samples": 3,
        },
        "loop": {"name": "main", "kind": "loop", "mode": "default", "phase": "after-waiting"},
        "thread": {"id": 4711, "name": service},
        "process": {
            "pid": 4711, "executable": {"path": MODULE.format(service), "build_id": {"gnu": BUILDS[version]}},
            "user": {"id": "998"}, "group": {"id": "998"}, "linux": {"cgroup": f"/system.slice/{service}.service"},
        },
        "systemd": {"unit": f"{service}.service"},
        "service": {"name": service, "version": version}, "host": {"name": host}, "stack": [],
    }


def fingerprint(service, function):
    return f"v1:{random.Random(service + function).getrandbits(64):016x}"


def fleet():
    chance = random.Random(7)
    lines = []
    sequences = {}
    rollout = {f"orders-{n:04}": START + datetime.timedelta(days=ROLLOUT, minutes=3 * n) for n in range(1, HOSTS["orders"] + 1)}

    def tell(report, event, level="warn"):
        host = report["host"]["name"]
        sequences[host] = sequences.get(host, 0) + 1
        told = json.loads(json.dumps(report))
        told["event"]["name"] = event
        told["log.level"] = level
        told["stall"]["sequence"] = sequences[host]
        lines.append((told["@timestamp"], dumped(told)))

    for service, function, cause, stalls, typical, more in PLANTS:
        names = more.get("hosts") or [f"{service}-{n:04}" for n in range(1, HOSTS[service] + 1)]
        for host in names:
            for number in range(stalls):
                first, last = more.get("days", (0, DAYS))
                moment = START + datetime.timedelta(days=first, seconds=chance.uniform(0, (last - first) * 86400))
                if "hour" in more:
                    moment = moment.replace(hour=more["hour"], minute=moment.minute // 3)
                version = "1.0.0"
                if service == "orders":
                    version = "2.4.0" if moment >= rollout[host] else "2.3.0"
                    if more.get("only", version) != version:
                        continue
                milliseconds = max(251.0, round(chance.lognormvariate(0, 0.4) * typical, 3))
                if version == "2.4.0":
                    milliseconds *= more.get("slower", 1)
                report = base(chance, moment, service, version, host, 0)
                stall = report["stall"]
                stall.update(duration_ms=milliseconds, cause=cause, culprit=function, fingerprint=fingerprint(service, function))
                report["message"] = f"main loop blocked for {milliseconds:.0f} ms in {function}"
                report["stack"] = [frame(service, function, 42, version), frame(service, "Main.turn() -> ()", 7, version)]
                if cause == "lock":
                    stall["evidence"] = {"state": "blocked", "wait": "futex(wait): pthread mutex", "lock_holder": 4712, "lock_kind": "mutex"}
                    report["stack"].insert(0, library("___pthread_mutex_lock", 0x8C481))
                    report["threads"] = [{
                        "id": 4712, "name": "keeper", "role": "lock_holder", "state": "fdatasync(3)",
                        "stack": [library("fdatasync", 0x10DA13), frame(service, more["holder"], 99, version)],
                    }]
                tell(report, "stall.started")
                if milliseconds > 1000:
                    tell(report, "stall.ongoing", "error")
                if more.get("fatal"):
                    report["process"].update(exit_signal="SIGKILL", exit_result="oom-kill")
                    tell(report, "stall.fatal", "error")
                    continue
                tell(report, "stall.ended")
                if "repeated" in more:
                    count = more["repeated"] + chance.randrange(20)
                    again = json.loads(json.dumps(report))
                    again["@timestamp"] = stamped(moment + datetime.timedelta(minutes=5))
                    again["stack"] = []
                    again["stall"]["duration_ms"] = round(count * typical * 0.9, 3)
                    again["stall"]["suppressed"] = {
                        "count": count, "total_ms": again["stall"]["duration_ms"], "longest_ms": typical * 1.5, "window_ms": 30000.0}
                    tell(again, "stall.suppressed")
    # Delivered at least once: some lines come twice.
    lines += chance.sample(lines, 500)
    lines.sort()
    return [line for _, line in lines]


def longest(count, seed):
    chance = random.Random(seed)
    result = []
    for number in range(1, count + 1):
        report = base(chance, START + datetime.timedelta(milliseconds=number), "media", "1.0.0", "media-0001", number)
        report["message"] = f'line {number}: "quotes", back\\slash, tab\t, % and ünïcödé 🧵, \u007f'
        report["stall"]["duration_ms"] = 1000.0 + number
        length = lambda: len((dumped(report) + "\n").encode())
        while length() < 7700:
            report["stack"].append(frame("media", f"Deep.level{len(report['stack'])}(<T: Hashable>) -> [T]", 1 + len(report["stack"]), "1.0.0"))
        report["stack"][-1]["symbol"] += "x" * (8000 - length())
        assert length() == 8000
        result.append(dumped(report))
    return result


def every_key():
    chance = random.Random(1)
    report = base(chance, START, "web", "1.0.0", "web-1", 1)
    report["message"] = 'a "quoted" tab\tand ünïcödé 🧵'
    report["event"].update(action="abort", dropped=3)
    capture = {"method": "perf", "approximate": True, "truncated": True, "child_task": True, "failure": "the thread has ended"}
    report["stall"].update(
        duration_ms=619.252, at_least=True, cause="lock", culprit="Web.wait() -> ()", fingerprint="v1:0123456789abcdef",
        evidence={
            "state": "blocked", "wait": "futex(wait)", "observed_ms": 415.996, "cpu_ms": 1.808, "run_delay_ms": 0.005,
            "throttled_ms": 1.0, "major_faults": 2, "frozen_ms": 3.0, "stolen_ms": 10.0, "callouts": 7, "longest_callout_ms": 3.0, "samples_disagree": True, "starves": True, "memory_shortage_ms": 2.0, "minor_faults": 4, "block_io_delay_ms": 5.0,
            "pressure": {"cpu_ms": 1.5, "io_ms": 2.5, "memory_ms": 3.5}, "lock_holder": 26090, "lock_kind": "mutex",
            "lock_label": "orders", "lock": "pthread mutex", "waits_for": "process", "deadlock": [26090, 26057], "watch_ended": True,
        },
        suppressed={"count": 7, "total_ms": 619.252, "longest_ms": 100.0, "window_ms": 30000.0, "over_budget": True},
        path={"share": 0.93, "functions": ["Web.wait() -> ()", "Web.turn() -> ()"]}, detail="/var/lib/web/stalls/1.json",
        capture=capture)
    report["loop"]["callout"] = 'timer "beat"'
    report["task"] = {"id": 17, "name": "order 4711", "priority": "medium", "actor": "web.Orders"}
    report["process"].update(reported_pid=4710, exit_code=1, exit_signal="SIGKILL", exit_result="oom-kill")
    inlined = {**frame("web", "Web.wait() -> ()", 3, "1.0.0"), "inlined": True}
    report["stack"] = [inlined, {"module": "/lib/x.so", "build_id": "ab", "offset": "0x10"}, {"symbol": "main"},
                       {"symbol": "route", "async": True}]
    report["threads"] = [{
        "id": 26090, "name": "keeper", "role": "lock_holder", "state": "running", "capture": capture, "stack": [inlined, {"symbol": "route", "async": True}]}]
    report.update(threads_omitted=2, frames_omitted=5)
    report["call_tree"] = {
        "samples": 3, "weight_ms": 369.252, "modules": [{"module": "/lib/x.so", "build_id": "ab"}],
        "nodes": {
            "parent": [-1, 0, 0], "module": [0, 0, -1], "offset": ["0x10", "0x20", "0x0"], "samples": [3, 2, 1],
            "weight_ms": [369.252, 300.0, 69.252], "async": [1, 0, 0]}}
    # As jq or a shipper writes it: whole numbers of milliseconds without decimals, and nothing that may be left out.
    bare = base(chance, START, "web", "1.0.0", "web-1", 2)
    bare["message"] = "m"
    for key in ("thread", "systemd"):
        del bare[key]
    for key in ("user", "group", "linux"):
        del bare["process"][key]
    return [dumped(report), dumped(bare).replace("250.000", "250")]


if __name__ == "__main__":
    kind = sys.argv[1]
    if kind == "fleet":
        output = fleet()
    elif kind == "longest":
        output = longest(int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    else:
        output = every_key()
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    sys.stdout.write("".join(line + "\n" for line in output))
