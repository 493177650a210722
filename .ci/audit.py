"""Are there known holes in the dependencies that run? Asks the source that pip-audit asks.

Exit code 1 when there are, and when pip-audit doesn't work. A source that can't be reached is no reason to
stop a build, and no sign that all is well: then this says that nothing is known. One package is asked about
first, so that nobody waits for the refusals of all the others.
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
    """The source doesn't answer."""


def audit(requirements: list[str]) -> list[dict]:
    """What is known of each pinned requirement, as pip-audit tells it.

    Raises
    ------
    UnreachableError
        Nothing was learnt of any of them.
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
        found = json.loads(ran.stdout)["dependencies"]
    except (ValueError, KeyError):
        if any(word in ran.stderr for word in UNREACHABLE):
            raise UnreachableError(ran.stderr.strip().splitlines()[-1][:200]) from None
        sys.exit(f"pip-audit failed:\n{ran.stderr}")
    if all("skip_reason" in entry for entry in found):
        raise UnreachableError(found[0]["skip_reason"] if found else "it answered nothing")
    return found


def main() -> int:
    """Audit the lock; the exit code."""
    pinned = [line.split(" ;")[0].split(" \\")[0] for line in LOCK.read_text().splitlines() if "==" in line]
    try:
        audit([next(line for line in pinned if line.startswith("numpy=="))])
        found = audit(pinned)
    except UnreachableError as error:
        print(f"NOT AUDITED: the source of known holes can't be asked from here ({error}).")
        print(f"Nothing is known of the {len(pinned)} pinned packages; this is no sign that they have none.")
        return 0
    known = [entry for entry in found if "skip_reason" not in entry]
    holes = [(entry, hole) for entry in known for hole in entry["vulns"]]
    for entry, hole in holes:
        mended = ", ".join(hole["fix_versions"]) or "no version yet"
        print(f"{entry['name']} {entry['version']}: {hole['id']}, mended by {mended}")
    for entry in found:
        if "skip_reason" in entry:
            print(f"not audited: {entry['skip_reason']}")
    print(f"audited {len(known)} of {len(found)} pinned packages: {len(holes)} known holes")
    return 1 if holes else 0


if __name__ == "__main__":
    sys.exit(main())
