"""Prints the dotted path of each leaf of a JSON Schema, `[]` for what is in an array, and its type."""

import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    schema = json.load(file)


def leaves(node, path):
    while "$ref" in node:
        target = schema
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    if "properties" in node:
        for key, value in node["properties"].items():
            yield from leaves(value, f"{path}.{key}" if path else key)
    elif "items" in node:
        yield from leaves(node["items"], f"{path}[]")
    else:
        value = node.get("const", node.get("enum", [""])[0])
        yield path, node.get("type") or {bool: "boolean", str: "string"}[type(value)]


for path, kind in leaves(schema, ""):
    print(path, kind)
