#!/usr/bin/env python3
"""Writes report lines as many hosts would: generate.py LINES [--tiny] [--broken N] > FILE

The stalls of HOSTS hosts and 12 services with 400 culprits, 20 stacks each; most stalls have one line, some three, and some are
summaries. Lines have 1.5 to 2.5 KB, or about 300 bytes with --tiny. The same arguments give the same lines.
"""
import argparse
import random
import sys

arguments = argparse.ArgumentParser()
arguments.add_argument("lines", type=int)
arguments.add_argument("--tiny", action="store_true")
arguments.add_argument("--hosts", type=int, default=1000)
arguments.add_argument("--broken", type=int, default=0, help="every so many lines one that is no report")
arguments = arguments.parse_args()

dice = random.Random(7)
CAUSES = ["lock", "io", "running", "running", "sleep", "starved", "throttled", "fault", "stopped", "unknown"]


def frame(symbol, module, build, offset, file=None, line=None):
    place = f',"file":"{file}","line":{line}' if file else ""
    return f'{{"symbol":"{symbol}"{place},"module":"{module}","build_id":"{build}","offset":"0x{offset:x}"}}'


def stack(service, culprit, number):
    if arguments.tiny:
        return "[" + frame(culprit, f"/usr/bin/{service}", "aa", 4096 + number) + "]"
    libc = "93ac61ec5a8eb1396f9fbd350e3169a558528a40"
    own = "%040x" % (hash_of(service))
    path = f"/usr/lib/{service}/{service}"
    frames = [frame("__GI___poll", "/lib/x86_64-linux-gnu/libc.so.6", libc, 0x10E000 + number, "./io/poll.c", 29)]
    frames.append(frame(culprit, path, own, 0x8000 + number, f"/src/{service}/Sources/Work.swift", 40 + number))
    for depth in range(1 + number % 4):
        name = f"{service}.Handler{depth}.handle({service}.Request) -> Swift.Bool"
        frames.append(frame(name, path, own, 0x9000 + depth * 64, f"/src/{service}/Sources/Handler{depth}.swift", 10 + depth))
    frames.append(frame("main", path, own, 0x1000, f"/src/{service}/Sources/main.swift", 3))
    return "[" + ",".join(frames) + "]"


def hash_of(text):
    value = 0
    for character in text:
        value = (value * 131 + ord(character)) & 0xFFFFFFFFFFFF
    return value


culprits = []
for number in range(400):
    service = f"service-{number % 12}"
    name = f"{service}.Worker{number}.run(batch: Swift.Array<{service}.Item>) throws -> ()"
    stacks = [stack(service, name, variant) for variant in range(20)]
    culprits.append((service, name, "v2:%016x" % hash_of(name), dice.choice(CAUSES), stacks))
weights = [1 / (1 + rank) for rank in range(len(culprits))]


def line(time, event, stall, sequence, duration, host, release, kind, extra=""):
    service, culprit, fingerprint, cause, stacks = kind
    seconds = time % 86400
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    own = dice.choice(stacks) if event != "suppressed" else "[]"
    message = "" if arguments.tiny else f"main loop blocked for {duration} ms in {culprit}: waiting in futex(wait) for another thread"
    evidence = (
        "{}" if arguments.tiny else
        '{"state":"blocked","wait":"futex(wait): pthread mutex","observed_ms":415.996,"cpu_ms":1.808,"run_delay_ms":0.005,'
        '"pressure":{"cpu_ms":1.000,"io_ms":0.000,"memory_ms":0.000},"lock_holder":26090,"lock_kind":"mutex"}'
    )
    return (
        f'{{"@timestamp":"2026-11-{1 + time // 86400:02}T{clock}.{dice.randrange(1000):03}000000Z","log.level":"warn","message":"{message or "m"}",'
        f'"event":{{"name":"stall.{event}","schema":"1.0"}},"stall":{{"id":"{stall}","sequence":{sequence},"threshold_ms":250.000,'
        f'"duration_ms":{duration}.500,"cause":"{cause}","evidence":{evidence},"culprit":"{culprit}","fingerprint":"{fingerprint}","samples":2{extra}}},'
        f'"loop":{{"name":"main","kind":"loop","phase":"after-waiting"}},"thread":{{"id":{host + 1}}},"process":{{"pid":{host + 1},"executable":{{"path":"/usr/lib/{service}/{service}"}}}},'
        f'"service":{{"name":"{service}","version":"{release}"}},"host":{{"name":"host-{host:04}.example.net"}},"stack":{own}}}\n'
    )


written = 0
pending = []


def write(text):
    global written
    if written >= arguments.lines:
        return
    written += 1
    if arguments.broken and written % arguments.broken == 0:
        text = text[: len(text) // 2] + "\n"
    pending.append(text)
    if len(pending) == 4096:
        sys.stdout.write("".join(pending))
        pending.clear()


kinds = dice.choices(culprits, weights, k=65536)
number = 0
while written < arguments.lines:
    number += 1
    kind = kinds[number & 65535]
    host = dice.randrange(arguments.hosts)
    time = number * 14 * 86400 // max(1, arguments.lines)
    stall = "%032x" % dice.getrandbits(128)
    duration = int(250 * dice.paretovariate(1.2))
    release = "1.1" if time > 7 * 86400 else "1.0"
    choice = dice.random()
    if choice < 0.1:
        write(line(time, "started", stall, 1, 250, host, release, kind))
        write(line(time, "ongoing", stall, 2, 1000, host, release, kind))
        duration += 1000
    if choice > 0.95:
        tally = f',"suppressed":{{"count":3,"total_ms":{3 * duration}.500,"longest_ms":{2 * duration}.000,"window_ms":30000.000}}'
        write(line(time, "suppressed", stall, 4, 3 * duration, host, release, kind, tally))
    else:
        write(line(time, "ended", stall, 3, duration, host, release, kind))
sys.stdout.write("".join(pending))
