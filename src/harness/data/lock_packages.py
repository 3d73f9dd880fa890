#!/usr/bin/env python3
"""Writes packages.json: every package of every harness, with the digest of its archive, as npm resolves them today.

Run it after a version in recipes.json was changed, and read the difference. Uses the npm on this machine and its
registry, of which nothing is written down: an archive is known by its digest, wherever it comes from.
"""

import base64
import hashlib
import json
import os
import pathlib
import subprocess
import tempfile

HERE = pathlib.Path(__file__).parent


def npm(directory, *arguments):
    subprocess.run(["npm", "--prefix", directory, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error",
                    f"--cache={directory}/cache", *arguments], check=True, cwd=directory, stdout=subprocess.DEVNULL)


def resolve(recipe, directory):
    """What stands at which place. Optional packages are for other machines, or do what a harness without a screen does not."""
    wanted = {package["name"]: package["version"] for package in recipe["packages"]}
    pathlib.Path(directory, "package.json").write_text(
        json.dumps({"name": "lock", "version": "0.0.0", "dependencies": wanted}), encoding="utf-8")
    npm(directory, "install", "--package-lock-only", "--force")
    entries = json.loads(pathlib.Path(directory, "package-lock.json").read_text(encoding="utf-8"))["packages"]
    for place, entry in entries.items():
        if place and not entry.get("optional") and not entry.get("dev"):
            # One that is installed under another name says so.
            name = entry.get("name", place.rsplit("node_modules/", 1)[1])
            yield {"name": name, "version": entry["version"], "integrity": entry["integrity"], "place": place}


def sizes(packages, directory):
    """Of the archives, by digest."""
    npm(directory, "pack", f"--pack-destination={directory}",
        *sorted({f"{package['name']}@{package['version']}" for package in packages}))
    found = {}
    for archive in pathlib.Path(directory).glob("*.tgz"):
        data = archive.read_bytes()
        found["sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()] = len(data)
    return found


def main():
    recipes = json.loads((HERE / "recipes.json").read_text(encoding="utf-8"))
    locks = {}
    for name, recipe in recipes.items():
        with tempfile.TemporaryDirectory() as directory:
            packages = sorted(resolve(recipe, directory), key=lambda package: package["place"])
            bytes_of = sizes(packages, directory)
        for package in packages:
            package["bytes"] = bytes_of[package["integrity"]]
        for pinned in recipe["packages"]:
            if pinned["integrity"] not in bytes_of:
                raise SystemExit(f"{name}: {pinned['name']}@{pinned['version']} is not what recipes.json says")
        locks[name] = packages
    lines = []
    for name, packages in locks.items():
        rows = ",\n".join("    " + json.dumps(package) for package in packages)
        lines.append(f'  "{name}": [\n{rows}\n  ]')
    (HERE / "packages.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    os.umask(0o022)
    main()
