"""Validates JSON values against a JSON Schema, and tells which of their fields the schema does not mention.

Reads {"schema": …, "values": […]} on standard input; prints a list of problems for each value, one line each.
"""
import json
import sys

from jsonschema import Draft202012Validator

given = json.load(sys.stdin)
root = given["schema"]
Draft202012Validator.check_schema(root)
validator = Draft202012Validator(root)


def schemas(schema, value):
    """Yields every subschema that applies to the value itself."""
    if not isinstance(schema, dict):
        return
    yield schema
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        yield from schemas(target, value)
    for key in ("anyOf", "allOf", "oneOf"):
        for inner in schema.get(key, []):
            yield from schemas(inner, value)
    if "if" in schema and validator.evolve(schema=schema["if"]).is_valid(value):
        yield from schemas(schema["then"], value)


def unmentioned(schema_list, value, path):
    """Yields the paths of fields that none of the schemas mentions."""
    if isinstance(value, dict):
        for name, inner in value.items():
            found = []
            for schema in schema_list:
                if name in schema.get("properties", {}):
                    found += list(schemas(schema["properties"][name], inner)) or [{}]
                if isinstance(schema.get("additionalProperties"), dict):
                    found += schemas(schema["additionalProperties"], inner)
            if found:
                yield from unmentioned(found, inner, f"{path}.{name}")
            elif {} not in schema_list:
                yield f"{path}.{name}"
    elif isinstance(value, list):
        for inner in value:
            found = []
            for schema in schema_list:
                found += schemas(schema.get("items", {}), inner)
            yield from unmentioned(found, inner, f"{path}[]")


problems = []
for value in given["values"]:
    invalid = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]
    fields = sorted(set(unmentioned(list(schemas(root, value)), value, "$")))
    problems.append(invalid + [f"{field} is not in the schema" for field in fields])
json.dump(problems, sys.stdout)
