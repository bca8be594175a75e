"""Checks a profile of the Firefox Profiler's processed format, version 61: python3 check-firefox-profile.py FILE

There is no reader of this version, by others, in Debian or on PyPI. So this holds a file to what the profiler's own repository
documents: the types at that version (src/types/profile.ts and markers.ts), and docs-developer/CHANGELOG-formats.md, whose versions
are named below. A key or a column that is missing or that the types do not have, a value of another type, an index that leads
nowhere: each is said, and the end. Prints what is in the profile, as somebody sees it who follows the indices.
"""
import json
import re
import sys

NULL = type(None)
NUMBER = (int, float)


class Index:
    """A column of row numbers of another table, by name; `none` stands for no row."""

    def __init__(self, table, none=()):
        self.table, self.none = table, none


# Each table, with its columns and what is in them. `length` is the number of rows of all.
TABLES = {  # Version 60: shared by all threads.
    "stackTable": {"frame": Index("frameTable"), "prefix": Index("stackTable", [None])},  # 53: no categories here
    "frameTable": {
        "address": int, "inlineDepth": int, "category": Index("categories", [None]), "subcategory": (int, NULL), "func": Index("funcTable"),
        "nativeSymbol": Index("nativeSymbols", [None]), "innerWindowID": (int, NULL), "line": (int, NULL), "column": (int, NULL),
    },  # 45 and 54: no optimizations, no implementation
    "funcTable": {
        "name": Index("stringArray"), "isJS": bool, "relevantForJS": bool, "resource": Index("resourceTable", [-1]),
        "source": Index("sources", [None]), "lineNumber": (int, NULL), "columnNumber": (int, NULL),
    },  # 58: source, where fileName was
    "resourceTable": {"lib": Index("libs", [None]), "name": Index("stringArray"), "host": Index("stringArray", [None]), "type": int},
    "nativeSymbols": {"libIndex": Index("libs"), "address": int, "name": Index("stringArray"), "functionSize": (int, NULL)},  # 42
    "sources": {
        "id": (str, NULL), "filename": Index("stringArray"), "startLine": int, "startColumn": int, "sourceMapURL": Index("stringArray", [None]),
    },  # 61
}
SAMPLES = {"stack": Index("stackTable", [None]), "time": NUMBER, "weight": NUMBER}
MARKERS = {
    "data": dict, "name": Index("stringArray"), "startTime": NUMBER, "endTime": (*NUMBER, NULL), "phase": int, "category": Index("categories"),
}
# What must be there, and then what may.
META = (
    {"interval": NUMBER, "startTime": NUMBER, "processType": int, "product": str, "stackwalk": int, "version": int,
     "preprocessedProfileVersion": int, "markerSchema": list},
    {"categories": list, "profilingStartTime": NUMBER, "profilingEndTime": NUMBER, "oscpu": str, "platform": str, "symbolicated": bool,
     "importedFrom": str, "usesOnlyOneStackType": bool, "sourceCodeIsNotOnSearchfox": bool, "initialVisibleThreads": list,
     "initialSelectedThreads": list, "keepProfileThreadOrder": bool},
)  # 54: no doesNotUseFrameImplementation
THREAD = (
    {"processType": str, "processStartupTime": NUMBER, "processShutdownTime": (*NUMBER, NULL), "registerTime": NUMBER,
     "unregisterTime": (*NUMBER, NULL), "pausedRanges": list, "name": str, "isMainThread": bool, "pid": str, "tid": (int, str),
     "samples": dict, "markers": dict},
    {"processName": str, "showMarkersInTimeline": bool},
)  # 46: isMainThread; 47: pid is a text; 56 and 60: no tables, no texts
LIB = {"arch": str, "name": str, "path": str, "debugName": str, "debugPath": str, "breakpadId": str, "codeId": (str, NULL)}
SCHEMA = ({"name": str, "display": list, "fields": list}, {"tooltipLabel": str, "tableLabel": str, "chartLabel": str, "description": str})
FIELD = ({"key": str, "format": str}, {"label": str, "hidden": bool})  # 55: no data, no static fields; 57: not searchable
FORMATS = {"string": str, "unique-string": int, "integer": int}  # of those that the types have, what is used here
DISPLAYS = {"marker-chart", "marker-table", "timeline-overview", "timeline-memory", "timeline-ipc", "timeline-fileio", "stack-chart"}
COLORS = {
    "transparent", "purple", "green", "orange", "yellow", "lightblue", "blue", "brown", "magenta", "red", "lightred", "darkgrey", "grey",
}


def of(value, types, place):
    types = types if isinstance(types, tuple) else (types,)
    # In Python a truth value is a number.
    fits = isinstance(value, types) and (bool in types or not isinstance(value, bool))
    assert fits, f"{place} is {value!r}"


def has(value, required, allowed, place):
    of(value, dict, place)
    assert required.keys() <= value.keys(), f"{place} lacks {sorted(required.keys() - value.keys())}"
    unknown = value.keys() - required.keys() - allowed.keys()
    assert not unknown, f"{place} has {sorted(unknown)}"
    for key in value:
        of(value[key], {**required, **allowed}[key], f"{place}.{key}")


def check(table, columns, place, more=()):
    of(table, dict, place)
    assert table.keys() == {*columns, "length", *more}, f"{place} has {sorted(table)}"
    of(table["length"], int, f"{place}.length")
    for name, kind in columns.items():
        column = table[name]
        of(column, list, f"{place}.{name}")
        assert len(column) == table["length"], f"{place}.{name} has {len(column)} rows, and not {table['length']}"
        for row, value in enumerate(column):
            if not isinstance(kind, Index):
                of(value, kind, f"{place}.{name}[{row}]")
            elif value not in kind.none:
                of(value, int, f"{place}.{name}[{row}]")
                assert 0 <= value < rows[kind.table], f"{place}.{name}[{row}] is {value}, of {rows[kind.table]}"


profile = json.load(open(sys.argv[1]))
has(profile, {"meta": dict, "libs": list, "shared": dict, "threads": list}, {"pages": list}, "profile")
meta, shared, threads, libs = (profile[key] for key in ["meta", "shared", "threads", "libs"])
has(meta, *META, "meta")
assert meta["preprocessedProfileVersion"] == 61
categories = meta["categories"]
for category in categories:
    has(category, {"name": str, "color": str, "subcategories": list}, {}, "category")
    assert category["color"] in COLORS and category["subcategories"], category  # 53: each has one to fall back to
assert any(category["color"] == "grey" for category in categories), "the category to fall back to is the first grey one (53)"
for place in meta["initialVisibleThreads"] + meta["initialSelectedThreads"]:
    assert 0 <= place < len(threads)
for lib in libs:
    has(lib, LIB, {}, "lib")
    assert re.fullmatch(r"([0-9A-F]{33,})?", lib["breakpadId"]), lib

has(shared, {**{name: dict for name in TABLES}, "stringArray": list}, {}, "shared")
texts = shared["stringArray"]
assert all(isinstance(text, str) for text in texts) and len(set(texts)) == len(texts), "each text is there once"
rows = {name: shared[name]["length"] for name in TABLES}
rows |= {"stringArray": len(texts), "libs": len(libs), "categories": len(categories)}
for name, columns in TABLES.items():
    check(shared[name], columns, name)
stack, frame, func, resource, sources = (shared[key] for key in ["stackTable", "frameTable", "funcTable", "resourceTable", "sources"])
for row, prefix in enumerate(stack["prefix"]):
    assert prefix is None or prefix < row, f"stackTable.prefix[{row}] is {prefix}: a caller comes before what it calls"
for row in range(frame["length"]):
    assert frame["address"][row] >= -1 and frame["inlineDepth"][row] >= 0
    assert (frame["category"][row] is None) == (frame["subcategory"][row] is None)
assert all(0 <= kind <= 5 for kind in resource["type"])
assert all(first >= 1 for first in sources["startLine"] + sources["startColumn"]), "lines and columns count from 1 (61)"

schemas = {}
for schema in meta["markerSchema"]:
    has(schema, *SCHEMA, "schema")
    assert set(schema["display"]) <= DISPLAYS
    for field in schema["fields"]:
        has(field, *FIELD, "field")
    schemas[schema["name"]] = {field["key"]: FORMATS[field["format"]] for field in schema["fields"]}
    labels = [schema[key] for key in ["tooltipLabel", "tableLabel", "chartLabel"] if key in schema]
    for key in re.findall(r"\{marker\.data\.(\w+)\}", " ".join(labels)):
        assert key in schemas[schema["name"]], f"a label speaks of {key}"


def followed(node):
    """The functions of a stack, the outermost first, each with its file, line and library; and the stack's category (53)."""
    names, category = [], None
    while node is not None:
        row = stack["frame"][node]
        if category is None:
            category = frame["category"][row]
        function = frame["func"][row]
        source, lib = func["source"][function], func["resource"][function]
        names.append([
            texts[func["name"][function]], None if source is None else texts[sources["filename"][source]], frame["line"][row],
            None if lib == -1 else libs[resource["lib"][lib]]["path"],
        ])
        node = stack["prefix"][node]
    default = next(row for row, category in enumerate(categories) if category["color"] == "grey")
    return list(reversed(names)), categories[default if category is None else category]["name"]


tracks = []
for thread in threads:
    has(thread, *THREAD, "thread")
    samples, markers = thread["samples"], thread["markers"]
    check(samples, SAMPLES, "samples", more=["weightType"])
    assert samples["weightType"] == "tracing-ms"
    assert samples["time"] == sorted(samples["time"]) and all(time >= 0 for time in samples["time"]), "times go on from 0"
    check(markers, MARKERS, "markers")
    track = {"name": thread["name"], "process": thread["processName"], "samples": [], "markers": []}
    for time, node, weight in zip(samples["time"], samples["stack"], samples["weight"]):
        assert weight >= 0 and (node is not None or weight == 0)
        if node is not None:
            names, category = followed(node)
            track["samples"].append({"time": time, "weight": weight, "stack": names, "category": category})
    for name, data, start, end, phase in zip(*(markers[key] for key in ["name", "data", "startTime", "endTime", "phase"])):
        assert phase in (0, 1) and (phase == 0 or end >= start >= 0), "an instant, or an interval that has its end"
        fields = schemas[data["type"]]  # 52: by data.type alone
        for key in data.keys() - {"type"}:
            of(data[key], fields[key], key)
        unique = {key for schema in meta["markerSchema"] for field in schema["fields"] if field["format"] == "unique-string"
                  for key in [field["key"]]}
        seen = {key: texts[value] if key in unique else value for key, value in data.items()}
        track["markers"].append({"name": texts[name], "start": start, "end": end, **seen})
    tracks.append(track)
# A thread is told apart by its number, and processes are in the file by theirs (47).
assert len({(thread["pid"], thread["tid"]) for thread in threads}) == len(threads)
print(json.dumps(tracks))
