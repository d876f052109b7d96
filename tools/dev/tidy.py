# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over the project's own files, in parallel, and remembers what passed.

A file has passed when clang-tidy had nothing to say about exactly this text after preprocessing, with this
configuration and this clang-tidy; then it is not analysed again.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

# Options of other compilers, and of outputs that are not wanted.
DROPPED = {"-fno-gnu-unique", "-MD", "-MMD", "-c", "-Werror"}
DROPPED_WITH_VALUE = {"-o", "-MF", "-MT", "-MQ"}


def clang_arguments(command):
    """The compile command without compiler, launcher, outputs and what clang does not know."""
    words = shlex.split(command)
    while words and not words[0].startswith("-"):
        words.pop(0)
    kept = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in DROPPED_WITH_VALUE:
            skip = True
        elif word not in DROPPED:
            kept.append(word)
    return kept


def read_commands(build, root, folders):
    entries = []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["directory"], entry["file"]).resolve()
        try:
            relative = file.relative_to(root)
        except ValueError:
            continue
        if relative.parts[0] not in folders or file.suffix not in (".cpp", ".c"):
            continue
        compiler = "clang++" if file.suffix == ".cpp" else "clang"
        entries.append({"directory": entry["directory"], "file": str(file), "name": str(relative),
                        "arguments": [compiler, *clang_arguments(entry["command"])]})
    unique = {entry["file"]: entry for entry in entries}
    return sorted(unique.values(), key=lambda entry: entry["name"])


def passed_key(entry, configuration):
    """None when the file does not even preprocess; clang-tidy then says why."""
    arguments = entry["arguments"]
    result = subprocess.run([*arguments, "-E", "-w", "-o", "-"], cwd=entry["directory"], capture_output=True, check=False)
    if result.returncode != 0:
        return None
    digest = hashlib.sha256(configuration)
    digest.update(json.dumps(arguments).encode())
    digest.update(result.stdout)
    return digest.hexdigest()


def analyse(entry, database, cache, configuration, checks):
    key = passed_key(entry, configuration)
    if key and (cache / key).exists():
        return entry["name"], "cached", ""
    result = subprocess.run(["clang-tidy", "--quiet", *checks, "-p", str(database), entry["file"]], capture_output=True, text=True, check=False)
    if result.returncode == 0:
        if key:
            (cache / key).touch()
        return entry["name"], "ok", ""
    return entry["name"], "failed", result.stdout + result.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    parser.add_argument("--fast", action="store_true", help="leave out the path-sensitive analyzer, which takes most of the time")
    parser.add_argument("folders", nargs="+")
    options = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parents[2]
    options.cache.mkdir(parents=True, exist_ok=True)
    entries = read_commands(options.build, root, set(options.folders))
    if not entries:
        print("no source of", *options.folders, "in", options.build / "compile_commands.json")
        return 1
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    checks = ["--checks=-clang-analyzer-*"] if options.fast else []
    configuration = (root / ".clang-tidy").read_bytes() + version + repr(checks).encode()
    failed = cached = done = 0
    with tempfile.TemporaryDirectory() as database:
        commands = [{key: entry[key] for key in ("directory", "file", "arguments")} for entry in entries]
        pathlib.Path(database, "compile_commands.json").write_text(json.dumps(commands))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            jobs = [pool.submit(analyse, entry, database, options.cache, configuration, checks) for entry in entries]
            for job in concurrent.futures.as_completed(jobs):
                name, outcome, text = job.result()
                done += 1
                cached += outcome == "cached"
                if outcome == "failed":
                    failed += 1
                    print(text)
                print(f"[{done}/{len(entries)}] {name}: {outcome}", flush=True)
    print(f"clang-tidy: {len(entries) - failed} files passed ({cached} of them unchanged), {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
