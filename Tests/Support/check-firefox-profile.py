"""Reads a profile of the Firefox Profiler's processed format, version 61: python3 check-firefox-profile.py FILE

Fails where a table lacks a column, a column has another length than its table, or a number leads nowhere. Prints what is in it.
"""
import json
import sys

COLUMNS = {
    "stackTable": ["frame", "prefix"],
    "frameTable": ["address", "inlineDepth", "category", "subcategory", "func", "nativeSymbol", "innerWindowID", "line", "column"],
    "funcTable": ["isJS", "relevantForJS", "name", "resource", "source", "lineNumber", "columnNumber"],
    "resourceTable": ["lib", "name", "host", "type"],
    "nativeSymbols": ["libIndex", "address", "name", "functionSize"],
    "sources": ["id", "filename", "startLine", "startColumn", "sourceMapURL"],
}
COLORS = {"transparent", "purple", "green", "orange", "yellow", "lightblue", "blue", "brown", "magenta", "red", "lightred", "darkgrey", "grey"}


def check(table, columns, name):
    for column in columns:
        assert len(table[column]) == table["length"], f"{name}.{column}: {len(table[column])} rows, not {table['length']}"


def within(numbers, length, name, none=()):
    for number in numbers:
        assert number in none or 0 <= number < length, f"{name}: {number} of {length}"


profile = json.load(open(sys.argv[1]))
meta, shared, threads, libs = (profile[key] for key in ["meta", "shared", "threads", "libs"])
assert meta["preprocessedProfileVersion"] == 61
for key in ["interval", "startTime", "processType", "stackwalk", "version"]:
    assert isinstance(meta[key], (int, float)), key
assert any(category["color"] == "grey" and category["subcategories"] for category in meta["categories"])
assert all(category["color"] in COLORS for category in meta["categories"])
for lib in libs:
    assert set(lib) == {"arch", "name", "path", "debugName", "debugPath", "breakpadId", "codeId"}
for name, columns in COLUMNS.items():
    check(shared[name], columns, name)
texts = shared["stringArray"]
stack, frame, func, resource, sources = (shared[key] for key in ["stackTable", "frameTable", "funcTable", "resourceTable", "sources"])
for row, prefix in enumerate(stack["prefix"]):
    assert prefix is None or 0 <= prefix < row, "a caller comes before what it calls"
within(stack["frame"], frame["length"], "frame")
within(frame["func"], func["length"], "func")
within(frame["category"], len(meta["categories"]), "category", [None])
within(func["name"], len(texts), "name")
within(func["resource"], resource["length"], "resource", [-1])
within(func["source"], sources["length"], "source", [None])
within(resource["lib"], len(libs), "lib")
within(resource["name"] + sources["filename"], len(texts), "text")
milliseconds, markers, stacks = 0, 0, set()
for thread in threads:
    for key in ["name", "processName", "processType", "pid"]:
        assert isinstance(thread[key], str), key
    samples = thread["samples"]
    check(samples, ["stack", "time", "weight"], "samples")
    assert samples["weightType"] == "tracing-ms"
    assert samples["time"] == sorted(samples["time"]), "times go on"
    within(samples["stack"], stack["length"], "stack", [None])
    milliseconds += sum(samples["weight"])
    check(thread["markers"], ["data", "name", "startTime", "endTime", "phase", "category"], "markers")
    within(thread["markers"]["name"], len(texts), "marker")
    markers += thread["markers"]["length"]
    for data in thread["markers"]["data"]:
        assert data["type"] == meta["markerSchema"][0]["name"]
        within([data[key] for key in ["culprit", "cause", "release"] if key in data], len(texts), "field")
    for node in samples["stack"]:
        names = []
        while node is not None:
            names.append(texts[func["name"][frame["func"][stack["frame"][node]]]])
            node = stack["prefix"][node]
        if names:
            stacks.add(" > ".join(reversed(names)))
print(json.dumps({"tracks": len(threads), "milliseconds": milliseconds, "markers": markers, "stacks": sorted(stacks)}))
