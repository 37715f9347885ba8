#!/usr/bin/env python3
"""Runs the test suites of real projects in a plain checkout and as gates in each sandbox, and compares the results.

    app/tests/real_projects.py              all projects
    app/tests/real_projects.py walkdir click  these projects

The projects come from the registries, with the tools and settings of the user. Exits with 1 if a result differs.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SANDBOXES = ["bwrap", "landlock"]
# In seconds, for one run of a suite with the installation of what it needs.
TIME_LIMIT = 1200
AUTHOR = ["-c", "user.name=A", "-c", "user.email=a@example.com"]


@dataclass(frozen=True)
class Project:
    language: str
    name: str
    version: str
    covers: str
    suite: str
    # Python: installed in a virtual environment that is active when the suite runs.
    # JavaScript: the development dependencies, in place of the published ones, which have linters and the like.
    needs: tuple = ()
    # Paths that the suite reads and that Landlock must be told of (`sandbox.read`).
    reads: tuple = ()


PROJECTS = [
    Project(
        "Python", "platformdirs", "4.3.6", "home directory, XDG variables; installs itself with pip",
        "python3 -m venv .venv && .venv/bin/pip install -q . pytest==8.3.4 pytest-mock==3.14.0 appdirs==1.4.4"
        " && .venv/bin/python -m pytest -q",
    ),
    Project(
        "Python", "click", "8.1.8", "terminal, temporary files, locale, pagers and editors",
        "PYTHONPATH=src python -m pytest -q",
        ("pytest==8.3.4",),
    ),
    Project(
        "Python", "filelock", "3.16.1", "file locks between processes, read-only files and directories",
        "PYTHONPATH=src python -m pytest -q",
        ("pytest==8.3.4", "pytest-asyncio==0.25.0", "pytest-mock==3.14.0", "pytest-timeout==2.3.1", "virtualenv==20.28.0"),
    ),
    Project(
        "Python", "dulwich", "0.22.7", "git repositories, read and written by git itself",
        "python -m unittest tests.test_repository tests.compat.test_repository tests.compat.test_pack",
        ("urllib3==2.3.0",),
    ),
    Project("Rust", "walkdir", "2.5.0", "directory trees, links, /sys; no lock file", "cargo test", reads=("/sys",)),
    Project(
        "JavaScript", "sonic-boom", "5.0.2", "file descriptors, modes, reopened files; installs with npm",
        "npm ci --ignore-scripts && node --test --test-reporter=tap"
        " test/end.test.js test/fsync.test.js test/mode.test.js test/reopen.test.js",
        ("@sinonjs/fake-timers@15.0.0", "proxyquire@2.1.3"),
    ),
]


@dataclass(frozen=True)
class Result:
    """What a suite reported: its counts, and whether its command succeeded."""

    passed: int
    failed: int
    skipped: int
    success: bool

    def __str__(self):
        text = f"{self.passed} passed"
        text += f", {self.failed} failed" if self.failed else ""
        text += f", {self.skipped} skipped" if self.skipped else ""
        return text if self.success else text + " (exit code not 0)"


# Each runner's closing lines: a pattern for the lines, and for the numbers and their names in them.
RUNNERS = [
    (r"^=*\s*\d+ (?:passed|failed|skipped|error).* in [\d.]+s.*$", r"(?P<number>\d+) (?P<name>[a-z]+)"),  # pytest
    (r"^(?:Ran \d+ tests? in|(?:OK|FAILED) \().*$", r"(?P<name>Ran|failures|errors|skipped|expected failures)[ =](?P<number>\d+)"),
    (r"^test result: .*$", r"(?P<number>\d+) (?P<name>passed|failed|ignored)"),  # cargo test
    (r"^\s*\d+ (?:passing|failing|pending)\b.*$", r"(?P<number>\d+) (?P<name>\w+)"),  # mocha
    (r"^# (?:pass|fail|skipped|todo|cancelled)\s+\d+$", r"(?P<name>\w+)\s+(?P<number>\d+)"),  # node:test, tape
]
MEANINGS = {
    "passed": ["passed", "passing", "pass", "xpassed", "Ran"],
    "failed": ["failed", "failing", "fail", "error", "errors", "failures", "cancelled"],
    "skipped": ["skipped", "ignored", "pending", "xfailed", "expected failures", "todo"],
}


def read_result(output, success):
    """Adds up what the runners in this output counted."""
    found = dict.fromkeys(MEANINGS, 0)
    for lines, numbers in RUNNERS:
        for line in re.findall(lines, output, re.MULTILINE):
            for number in re.finditer(numbers, line):
                for meaning, names in MEANINGS.items():
                    found[meaning] += int(number["number"]) if number["name"] in names else 0
                # Python's unittest counts all tests together.
                if line.startswith(("OK", "FAILED (")):
                    found["passed"] -= int(number["number"])
    return Result(**found, success=success)


def run(args, cwd, **options):
    """Runs a command that must succeed and returns its output."""
    ran = subprocess.run(args, cwd=cwd, capture_output=True, text=True, **options)
    if ran.returncode != 0:
        sys.exit(f"{args} failed in {cwd}:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def download(project, work):
    """Puts the project's published source into a directory below `work` and returns it."""
    pinned = work / f"{project.name}-{project.version}"
    if project.language == "Rust":
        manifest = f'[package]\nname = "x"\nversion = "0.0.0"\n[lib]\npath = "x"\n[dependencies]\n{project.name} = "={project.version}"\n'
        # Not above the project, where cargo would find it.
        (work / "fetch").mkdir()
        (work / "fetch/Cargo.toml").write_text(manifest)
        known = json.loads(run(["cargo", "metadata", "--format-version=1"], work / "fetch"))
        (source,) = (Path(found["manifest_path"]).parent for found in known["packages"] if found["name"] == project.name)
        run(["cp", "-r", source, pinned], work)
        (pinned / ".cargo-ok").unlink(missing_ok=True)
        return pinned
    if project.language == "Python":
        which = ["--no-deps", "--no-binary", project.name, f"{project.name}=={project.version}"]
        run([sys.executable, "-m", "pip", "download", "-q", "-d", work, *which], work)
        archive = next(work.glob("*.tar.gz"))
    else:
        archive = work / run(["npm", "pack", "--silent", f"{project.name}@{project.version}"], work).strip()
    with tarfile.open(archive) as files:
        files.extractall(work / "unpacked", filter="data")
    next((work / "unpacked").iterdir()).rename(pinned)
    return pinned


def make_repository(project, checkout):
    """Commits everything, also what the project's own ignore file names: it was published."""
    if project.language == "JavaScript":
        package = json.loads((checkout / "package.json").read_text()) | {"devDependencies": {}}
        (checkout / "package.json").write_text(json.dumps(package, indent=2))
        run(["npm", "install", "--package-lock-only", "--ignore-scripts", "--save-dev", "--save-exact", *project.needs], checkout)
    run(["git", "init", "-q", "-b", "main"], checkout)
    (checkout / ".gitignore").write_text("/.venv/\n/node_modules/\n/target/\n/Cargo.lock\n__pycache__/\n*.egg-info/\n")
    run(["git", "add", "--force", "."], checkout)
    run(["git", *AUTHOR, "commit", "-q", "-m", "As published"], checkout)


def activate(project, work):
    """Returns the user's environment, with the project's needs in an active virtual environment."""
    environment = dict(os.environ)
    if project.language == "Python" and project.needs:
        run([sys.executable, "-m", "venv", "venv"], work)
        run(["venv/bin/pip", "install", "-q", *project.needs], work)
        environment["PATH"] = f"{work}/venv/bin:{environment['PATH']}"
        environment["VIRTUAL_ENV"] = f"{work}/venv"
    return environment


def run_outside(project, checkout, environment):
    """Runs the suite in the checkout, then removes what it left there."""
    command = ["sh", "-c", project.suite]
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    ran = subprocess.run(command, cwd=checkout, env=environment, timeout=TIME_LIMIT, text=True, errors="replace", **options)
    run(["git", "reset", "-q", "--hard"], checkout)
    run(["git", "clean", "-qffdx"], checkout)
    return [("checkout", read_result(ran.stdout, ran.returncode == 0), ran.stdout)]


def run_inside(project, checkout, environment, sandbox, program):
    """Runs a feature of one task with the suite as its gate. Returns a result for the base and one for the level."""
    caches = [".venv/", "node_modules/", "target/"]
    gate = {"name": "suite", "command": project.suite, "timeout": TIME_LIMIT}
    config = {"sandbox": {"mode": sandbox}, "quality_gates": [gate], "gates": {"caches": caches}}
    if sandbox == "landlock":
        config["sandbox"]["read"] = project.reads
        # Not below the checkout: tools look for their settings in all directories above, and cannot read the checkout's.
        config["worktrees"] = {"dir": str(checkout.parent / "worktrees")}
    made = f"made-in-{sandbox}.txt"
    task = {"id": "MAKE", "title": "Make a file", "level": 1, "files": {"create": [made]}}
    task |= {"run": f"echo made > {made}", "verification": {"command": f"test -s {made}"}}
    for path, content in {
        ".mahabharatha/config.yaml": config,
        f".gsd/specs/{sandbox}/task-graph.json": {"feature": sandbox, "tasks": [task]},
    }.items():
        (checkout / path).parent.mkdir(parents=True, exist_ok=True)
        # JSON is YAML.
        (checkout / path).write_text(json.dumps(content))
    run(["git", "add", "--force", ".mahabharatha/config.yaml"], checkout)
    run(["git", *AUTHOR, "commit", "-q", "-m", "Configure"], checkout)
    command = [program, "run", "--feature", sandbox, "--allow-red-base"]
    ran = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)
    results = []
    for log in sorted((checkout / ".mahabharatha/logs" / sandbox / "gates").glob("*-suite.*.jsonl")):
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        output = "\n".join(line["message"] for line in lines if line["event"] == "gate_output")
        success = lines[-1]["event"] == "gate_ended" and lines[-1]["message"].startswith("passed")
        results.append((log.stem, read_result(output, success), output))
    return results or [("run", Result(0, 0, 0, False), ran.stdout + ran.stderr)]


def compare(project, directory, program):
    """Prints the project's row of the table and returns whether the suite gave the same result everywhere."""
    work = directory / project.name
    work.mkdir(parents=True)
    checkout = download(project, work)
    make_repository(project, checkout)
    environment = activate(project, work)
    cells, expected, same = [], None, True
    for place in ["outside", *SANDBOXES]:
        started = time.monotonic()
        results = run_outside(project, checkout, environment) if place == "outside" else run_inside(
            project, checkout, environment, place, program)
        expected = expected or results[0][1]
        for name, result, output in results:
            (work / f"{place}.{name}.log").write_text(output)
            if result != expected or result.passed == 0:
                same = False
                print(f"{project.name}, {place}, {name}: {result}\n{output[-4000:]}", file=sys.stderr)
        distinct = dict.fromkeys(str(result) for _, result, _ in results)
        cells.append("; then ".join(distinct))
        print(f"{project.name} {place}: {cells[-1]}, {time.monotonic() - started:.0f} s", file=sys.stderr)
    row = [f"{project.name} {project.version}", project.language, project.covers, *cells, "yes" if same else "**no**"]
    print(f"| {' | '.join(row)} |", flush=True)
    return same


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these projects")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep checkouts and logs in this new directory")
    parser.add_argument("--program", type=Path, default=ROOT / "target/debug/mahabharatha", help="the program to test")
    options = parser.parse_args()
    projects = [project for project in PROJECTS if project.name in options.names or not options.names]
    unknown = set(options.names) - {project.name for project in projects}
    if unknown or not options.program.is_file():
        parser.error(f"no such project: {', '.join(unknown)}" if unknown else f"not built: {options.program}")
    print("| project | language | covers | outside | bubblewrap | Landlock | same |\n|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="real-projects-") as temporary:
        directory = (options.keep or Path(temporary)).resolve()
        same = [compare(project, directory, options.program.resolve()) for project in projects]
    sys.exit(0 if all(same) else 1)


if __name__ == "__main__":
    main()
