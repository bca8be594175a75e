"""Compares OTLP lines with the reports that they were made of.

    check-otlp.py REPORTS OTLP

Each OTLP line must parse as LogsData and as ExportLogsServiceRequest (strictly: an unknown field is a fault), and give the report back,
field by field. Prints one line for each fault, and exits with 1 if there was one.
"""

import json
import sys
import time

from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData, SeverityNumber

NAMES = {"process.exit.code": "process.exit_code"}
TEXTS = {"process.user.id"}
ADDED = {"code.function.name", "code.file.path", "code.line.number", "code.stacktrace"}
RESOURCE = ("service.", "host.", "process.", "systemd.")
SEVERITIES = {"info": "INFO", "warn": "WARN", "error": "ERROR"}


def value(any_value):
    kind = any_value.WhichOneof("value")
    if kind == "array_value":
        return [value(element) for element in any_value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: value(pair.value) for pair in any_value.kvlist_value.values}
    return getattr(any_value, kind) if kind else None


def put(report, path, content):
    *parents, last = path.split(".")
    for key in parents:
        report = report.setdefault(key, {})
    report[last] = content


def rebuilt(data):
    (resource_logs,) = data.resource_logs
    (scope_logs,) = resource_logs.scope_logs
    (record,) = scope_logs.log_records
    assert scope_logs.scope.name == "stalld", scope_logs.scope.name
    seconds, nanoseconds = divmod(record.time_unix_nano, 10**9)
    report = {
        "@timestamp": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{nanoseconds:09}Z",
        "log.level": record.severity_text,
        "message": record.body.string_value,
    }
    severity = SeverityNumber.Name(record.severity_number)
    assert severity == "SEVERITY_NUMBER_" + SEVERITIES[record.severity_text], f"{severity} of {record.severity_text}"
    put(report, "event.name", record.event_name)
    for pair in resource_logs.resource.attributes:
        assert pair.key.startswith(RESOURCE), pair.key
        content = value(pair.value)
        put(report, pair.key, str(content) if pair.key in TEXTS else content)
    added = {}
    for pair in record.attributes:
        content = value(pair.value)
        if pair.key in ADDED:
            added[pair.key] = content
        else:
            put(report, NAMES.get(pair.key, pair.key), content)
    return report, added


def leaves(content, path=""):
    if isinstance(content, dict) and content:
        for key, inner in content.items():
            yield from leaves(inner, f"{path}.{key}")
    elif isinstance(content, list) and content:
        for index, inner in enumerate(content):
            yield from leaves(inner, f"{path}[{index}]")
    elif not (isinstance(content, dict) and path.endswith(".evidence")):
        # An empty evidence has nothing to keep.
        yield path, content


def main():
    faults = 0
    with open(sys.argv[1], encoding="utf-8") as file:
        reports = [json.loads(line) for line in file if line.strip()]
    with open(sys.argv[2], encoding="utf-8") as file:
        lines = file.read().splitlines()
    if len(lines) != len(reports):
        print(f"{len(reports)} reports became {len(lines)} lines")
        faults += 1
    for number, (report, line) in enumerate(zip(reports, lines), start=1):
        try:
            data = json_format.Parse(line, LogsData())
            json_format.Parse(line, ExportLogsServiceRequest())
            found, added = rebuilt(data)
        except (json_format.ParseError, AssertionError, KeyError, ValueError) as error:
            print(f"line {number}: {type(error).__name__}: {error}")
            faults += 1
            continue
        before, after = dict(leaves(report)), dict(leaves(found))
        for path in sorted(before.keys() | after.keys()):
            if before.get(path) != after.get(path):
                print(f"line {number}: {path} was {before.get(path)!r} and is {after.get(path)!r}")
                faults += 1
        if added.get("code.function.name") != report["stall"].get("culprit"):
            print(f"line {number}: code.function.name is {added.get('code.function.name')!r}")
            faults += 1
        if len(added.get("code.stacktrace", "").splitlines()) != len(report["stack"]):
            print(f"line {number}: code.stacktrace has another number of frames")
            faults += 1
    sys.exit(1 if faults else 0)


main()
