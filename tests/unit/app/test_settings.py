"""Settings: errors without values, unknown variables reported, complete listing."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app import settings
from app.cli import app
from app.described_settings import shown_value
from app.settings import SettingError, Settings, read_settings, unknown_variables
from sampler import interrupt

SECRET = "s3cret"


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for variable in list(settings.os.environ):
        if variable.startswith("BARTSERVE_"):
            monkeypatch.delenv(variable)
    monkeypatch.setenv("BARTSERVE_DATA_DIR", str(tmp_path))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", f"mysql://app:{SECRET}@db/x"),
        ("DATABASE_URL", f"postgresql://app:{SECRET}/5@db/x"),
        ("DATABASE_URL", f"postgresql://app:{SECRET}@[db/x"),
        ("DATABASE_URL", SECRET),
        ("REDIS_URL", f"http://:{SECRET}@db"),
        ("REDIS_URL", f"redis://:{SECRET}@db:port"),
        ("DATABASE_PASSWORD_FILE", "/nowhere"),
        ("WORKER_SLOTS", SECRET),
        ("KERNELS", SECRET),
        ("LEASE_SECONDS", "-1"),
        ("CACHE_BYTES", SECRET),
    ],
)
@pytest.mark.parametrize("command", ["migrate", "config", "api", "worker", "up", "warm"])
def test_a_wrong_setting_is_one_sentence_without_secrets(monkeypatch, name, value, command):
    """The error of an invalid setting names the variable, without its value or a traceback."""
    monkeypatch.setenv(f"BARTSERVE_{name}", value)
    ran = CliRunner().invoke(app, [command])
    assert ran.exit_code == 1
    assert isinstance(ran.exception, SystemExit)
    assert ran.stderr.startswith(f"BARTSERVE_{name}: ")
    assert len(ran.output.splitlines()) == 1
    assert SECRET not in ran.output
    assert "app" not in ran.output


def test_all_wrong_settings_are_reported_together(monkeypatch):
    """All invalid settings are reported together."""
    monkeypatch.setenv("BARTSERVE_PORT", "x")
    monkeypatch.setenv("BARTSERVE_WORKER_SLOTS", "0")
    with pytest.raises(SettingError, match=r"^BARTSERVE_PORT: .*; BARTSERVE_WORKER_SLOTS: .*\.$"):
        read_settings()
    with pytest.raises(SettingError, match=r"--port: input should be less than or equal to 65535\.$"):
        read_settings(port=99_999, worker_slots=1)


def test_an_unknown_variable_is_reported_with_the_nearest_setting(monkeypatch):
    """A misspelt variable is reported with the nearest setting; variables of other programs are ignored."""
    warnings = unknown_variables(
        {
            "BARTSERVE_WORKER_SLOT": "2",
            "BARTSERVE_QOUTA": "1",
            "bartserve_lease_second": "1",
            "BARTSERVE_URL": "",
            "BARTSERVE_DATABASE_PASSWORD_FILE": "",
            "BARTSERVE_SERVICE_HOST": "",
            "BARTSERVE_PORT_8000_TCP_ADDR": "",
            "BARTSERVE_TEST_POSTGRES_URL": "",
            "OTHER_SETTING": "",
        }
    )
    assert [re.findall(r"(?i)BARTSERVE_\w+", sentence) for sentence in warnings] == [
        ["BARTSERVE_QOUTA", "BARTSERVE_QUOTA_QUEUED"],
        ["BARTSERVE_WORKER_SLOT", "BARTSERVE_WORKER_SLOTS"],
        ["bartserve_lease_second", "BARTSERVE_LEASE_SECONDS"],
    ]
    monkeypatch.setenv("BARTSERVE_QOUTA", "1")
    ran = CliRunner().invoke(app, ["config"])
    assert ran.exit_code == 0
    assert ran.stderr.startswith("The environment variable BARTSERVE_QOUTA is not a setting")
    monkeypatch.setenv("BARTSERVE_LIFELINE_FD", "0")  # `up` has reported it
    assert not CliRunner().invoke(app, ["config"]).stderr


def test_config_prints_every_setting_and_no_secret(monkeypatch):
    """`config` prints each setting's meaning, default and value, with all passwords masked."""
    monkeypatch.setenv("BARTSERVE_DATABASE_URL", f"postgres://app:{SECRET}@db/x?sslpassword={SECRET}&a=b")
    monkeypatch.setenv("BARTSERVE_REDIS_URL", "redis://broker:6379/0")
    monkeypatch.setenv("BARTSERVE_REDIS_PASSWORD", SECRET)
    monkeypatch.setenv("BARTSERVE_WORKER_SLOTS", "3")
    ran = CliRunner().invoke(app, ["config"])
    assert ran.exit_code == 0, ran.output
    assert SECRET not in ran.output
    values = dict(re.findall(r"^BARTSERVE_(\w+) = (.*)$", ran.stdout, re.MULTILINE))
    assert sorted(values) == sorted(name.upper() for name in Settings.model_fields)
    assert values["DATABASE_URL"] == "postgresql+psycopg://app:********@db/x?sslpassword=********&a=b"
    assert values["REDIS_URL"] == "redis://:********@broker:6379/0"
    assert values["REDIS_PASSWORD"] == "********"
    assert values["DATABASE_PASSWORD"] == "none"
    assert values["WORKER_SLOTS"] == "3"
    assert len(re.findall(r"\([^()]*; default: [^()]*\)$", ran.stdout, re.MULTILINE)) == len(values)
    assert shown_value(Settings(worker_slots=2), "worker_slots") == "2"


@pytest.mark.parametrize(
    "url", ["bart.example", "https://bart.example/x", "https://a@bart.example", "ftp://b"]
)
def test_a_public_address_is_an_origin(tmp_path, url):
    """A public address with path, user or no scheme is refused; default port and final slash are dropped."""
    with pytest.raises(ValueError, match=r"like https://bart\.example"):
        Settings(data_dir=tmp_path, public_url=url)
    chosen = Settings(data_dir=tmp_path, public_url="https://Bart.example:443/")
    assert chosen.public_url == "https://bart.example"


@pytest.mark.parametrize(("cores", "slots", "threads"), [(8, 2, 4), (8, 3, 2), (2, 4, 1)])
def test_chains_share_the_cores(cores, slots, threads, monkeypatch):
    """Chains have the threads for which slots leave cores, unless another number is set."""
    monkeypatch.setattr(settings, "count_cores", lambda: cores)

    assert Settings(worker_slots=slots).worker_chain_threads == threads
    assert Settings(worker_slots=slots, worker_chain_threads=5).worker_chain_threads == 5


@pytest.mark.parametrize(("quota", "cores"), [("max 100000", 8), ("250000 100000", 2), ("50000 100000", 1)])
def test_a_limit_of_processor_time_is_one_of_cores(quota, cores, tmp_path, monkeypatch):
    """A container that gets the time of two cores has two, on a machine of eight."""
    monkeypatch.setattr(interrupt.os, "sched_getaffinity", lambda _: range(8))
    monkeypatch.setattr(interrupt, "QUOTA_FILE", tmp_path / "cpu.max")
    interrupt.QUOTA_FILE.write_text(f"{quota}\n")

    assert settings.count_cores() == cores
    root = Path(settings.__file__).parents[1]
    sources = [
        file for part in ("app", "sampler", "worker", "bartserve") for file in (root / part).rglob("*.py")
    ]
    assert [file.name for file in sources if "sched_getaffinity" in file.read_text()] == ["interrupt.py"]


@pytest.mark.parametrize(
    ("cores", "gib", "slots"),
    [(2, 2, 2), (2, 4, 2), (8, 2, 2), (8, 4, 6), (64, 4, 6), (8, 16, 8), (4, 0.5, 1)],
)
def test_slots_have_room_for_their_processes(cores, gib, slots, monkeypatch):
    """With many cores and little memory there are so few slots that a small fit has room in each."""
    monkeypatch.setattr(settings, "count_cores", lambda: cores)
    monkeypatch.setattr(settings, "_memory", lambda: int(gib * 1024**3))

    chosen = Settings()

    assert chosen.worker_slots == slots
    assert chosen.fit_memory_bytes >= settings.PROCESS_BYTES or gib < 1
