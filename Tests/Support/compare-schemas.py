"""Says what of a released JSON Schema a newer one of the same major version breaks.

    compare-schemas.py RELEASED NEW

Prints one line for each fault, and exits with 1 if there was one. What Documentation/ReportContract.md promises: a key of the release
stays, with its type and its limits, required where it was and nowhere else; new keys are optional; lists of words may
grow, but for CLOSED.
"""

import json
import sys

# Whoever filters by severity must not miss one.
CLOSED = {"log.level"}
# The version itself, whose minor part grows.
VERSION = "event.schema"
# What is said for people, and what holds no matter.
IGNORED = {"$schema", "$id", "$defs", "title", "description", "properties", "items", "required", "enum", "$ref"}


def resolved(schema, node):
    while "$ref" in node:
        rest = {key: value for key, value in node.items() if key != "$ref"}
        target = schema
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = {**target, **rest}
    return node


def faults(old_schema, new_schema, old, new, path=""):
    old, new = resolved(old_schema, old), resolved(new_schema, new)
    name = path or "the report"
    for key in sorted((old.keys() | new.keys()) - IGNORED):
        if path == VERSION and key == "const":
            before, after = (tuple(map(int, node.get("const", "0.0").split("."))) for node in (old, new))
            if before[0] != after[0] or after < before:
                yield f"{name}: version {old.get(key)} became {new.get(key)}"
        elif old.get(key) != new.get(key):
            yield f"{name}: {key} was {json.dumps(old.get(key))} and is {json.dumps(new.get(key))}"
    before, after = old.get("enum"), new.get("enum")
    if (before is None) != (after is None):
        yield f"{name}: {'is a list of words no more' if before else 'became a list of words'}"
    elif before is not None:
        for word in before:
            if word not in after:
                yield f"{name}: the word {json.dumps(word)} is gone"
        for word in after:
            if word not in before and path in CLOSED:
                yield f"{name}: the word {json.dumps(word)} is new, and this list is closed"
    for key in sorted(set(old.get("required", [])) ^ set(new.get("required", []))):
        is_gone = key in old.get("required", [])
        yield f"{name}: {key} {'is required no more' if is_gone else 'became required: older lines lack it'}"
    for key, value in old.get("properties", {}).items():
        inner = f"{path}.{key}" if path else key
        if key not in new.get("properties", {}):
            yield f"{inner}: the key is gone"
        else:
            yield from faults(old_schema, new_schema, value, new["properties"][key], inner)
    if ("items" in old) != ("items" in new):
        yield f"{name}: items were {'' if 'items' in old else 'not '}described"
    elif "items" in old:
        yield from faults(old_schema, new_schema, old["items"], new["items"], f"{path}[]")


def main():
    old, new = (json.load(open(path, encoding="utf-8")) for path in sys.argv[1:3])
    found = list(faults(old, new, old, new))
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)


main()
