"""Check the pinned run-time dependencies for known vulnerabilities with pip-audit.

The exit code is 1 when there are some, and when pip-audit fails. When its source can't be reached the script
says that nothing is known and exits with 0: that should not stop a build. One package is checked first, so
that an unreachable source is noticed quickly.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

LOCK = Path(__file__).parents[1] / "locks" / "run.txt"
SECONDS = 300
UNREACHABLE = ("ConnectionError", "ServiceError", "Timeout", "timed out", "Max retries")


class UnreachableError(Exception):
    """The source of vulnerabilities doesn't answer."""


def audit(requirements: list[str]) -> list[dict]:
    """Return pip-audit's findings for each pinned requirement.

    Raises
    ------
    UnreachableError
        When nothing could be learnt about any of them.

    """
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(requirements))
        file.flush()
        command = [sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "--progress-spinner=off"]
        command += ["--format=json", f"--requirement={file.name}", "--timeout=10"]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise UnreachableError(f"no answer within {SECONDS} s") from None
    try:
        dependencies = json.loads(ran.stdout)["dependencies"]
    except (ValueError, KeyError):
        if any(word in ran.stderr for word in UNREACHABLE):
            raise UnreachableError(ran.stderr.strip().splitlines()[-1][:200]) from None
        sys.exit(f"pip-audit failed:\n{ran.stderr}")
    if all("skip_reason" in entry for entry in dependencies):
        raise UnreachableError(dependencies[0]["skip_reason"] if dependencies else "the answer was empty")
    return dependencies


def main() -> int:
    """Audit the lock and return the exit code."""
    pinned = [line.split(" ;")[0].split(" \\")[0] for line in LOCK.read_text().splitlines() if "==" in line]
    try:
        audit([next(line for line in pinned if line.startswith("numpy=="))])
        dependencies = audit(pinned)
    except UnreachableError as error:
        print(f"NOT AUDITED: the source of known vulnerabilities can't be reached from here ({error}).")
        print(f"Whether the {len(pinned)} pinned packages have any is unknown.")
        return 0
    known = [entry for entry in dependencies if "skip_reason" not in entry]
    holes = [(entry, hole) for entry in known for hole in entry["vulns"]]
    for entry, hole in holes:
        fixed = ", ".join(hole["fix_versions"]) or "no version yet"
        print(f"{entry['name']} {entry['version']}: {hole['id']}, fixed by {fixed}")
    for entry in dependencies:
        if "skip_reason" in entry:
            print(f"not audited: {entry['skip_reason']}")
    print(f"audited {len(known)} of {len(dependencies)} pinned packages: {len(holes)} known vulnerabilities")
    return 1 if holes else 0


if __name__ == "__main__":
    sys.exit(main())
