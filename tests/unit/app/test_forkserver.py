"""The fork server of readers has loaded what they use."""

import subprocess
import sys
from pathlib import Path

import tests.data

READ = """
import io, json, sys
import pyarrow as pa
from app.services.readers.options import Options
from app.services.predictions.file_rows import LIMITS
from app.services.readers.process import forkserver
from app.services.readers.process.tasks import TASKS

forkserver._load([])
loaded = set(sys.modules)
table = pa.table({"x": [1.5, None], "kind": ["a", "b"]})
stream = io.BytesIO()
with pa.ipc.new_stream(stream, table.schema) as writer:
    writer.write_table(table)
for content in (stream.getvalue(), b"x,kind\\n1.5,a\\n,b\\n"):
    task = {"options": Options().to_json(), "limits": LIMITS.to_json(), "keep": []}
    TASKS["rows"](io.BytesIO(content), io.BytesIO(), task)
print(json.dumps(sorted({name.partition(".")[0] for name in set(sys.modules) - loaded})))
"""


def test_reading_a_table_loads_no_further_package():
    """A package that a reader loads is loaded again in every one: pandas took a tenth of a second."""
    run = subprocess.run([sys.executable, "-c", READ], capture_output=True, text=True, check=True)
    assert "pandas" not in run.stdout, run.stdout
    assert run.stdout.strip() == "[]"


READ_MODEL = """
import io, sys
from app.services.readers.process import forkserver
from app.services.readers.process.confined import MODELS
from app.services.readers.process.tasks import TASKS

forkserver._load(list(MODELS.kernels))
loaded = set(sys.modules)
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        TASKS["model"](file, io.BytesIO(), {})
print(sorted(set(sys.modules) - loaded))
"""


def test_reading_a_model_loads_no_further_module():
    """Each reader of a model would load it again, and run out of memory in the middle of an import."""
    folder = Path(tests.data.__file__).parent / "formats"
    paths = [str(folder / name) for name in ("model_v1.bart", "forecaster_v1.bin")]
    run = subprocess.run(
        [sys.executable, "-c", READ_MODEL, *paths], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"
