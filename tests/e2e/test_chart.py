"""The Helm chart: what it renders, by recorded output; helm itself lints and renders it where it is there."""

import re
import subprocess
import tomllib
from importlib.util import find_spec

import pytest
import yaml
from sqlalchemy import text
from typer.testing import CliRunner

from app.cli import app
from app.settings import Settings
from tests.support import store_factories as factories
from tests.support.helm_chart import CASES, CHART, HELM, RECORDED, ROOT, digest, recorded, render

PODS = {
    "migrate": "Job/bartserve-migrate",
    "api": "Deployment/bartserve-api",
    "worker": "Deployment/bartserve-worker",
}
needs_helm = pytest.mark.skipif(HELM is None, reason="helm is not on this machine")
needs_schemas = pytest.mark.skipif(  # 108 MB in 17,000 files: not among the dependencies
    find_spec("kubernetes_validate") is None, reason="pip install kubernetes-validate"
)


@pytest.fixture(scope="module")
def team():
    """Return the objects of a team's values, with all that can be turned on."""
    return recorded("team")


def pod_of(objects, name):
    """Return the specification of a process's pods."""
    return objects[PODS[name]]["spec"]["template"]["spec"]


def environment_of(objects, name):
    """Return the variables of a process."""
    (container,) = pod_of(objects, name)["containers"]
    return {each["name"]: each["value"] for each in container["env"]}


def test_what_is_recorded_is_what_the_chart_renders_now():
    """A change of the chart is recorded with it: `python -m tests.support.helm_chart`."""
    assert (RECORDED / "digest").read_text().strip() == digest()


@needs_helm
@pytest.mark.parametrize("case", CASES)
def test_helm_renders_what_is_recorded(case):
    """The recorded output is helm's, which finds no fault."""
    assert render(case) == (RECORDED / f"{case}.yaml").read_text()
    command = [HELM, "lint", "--strict", str(CHART), "--values", str(RECORDED / f"{case}.values.yaml")]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


@needs_schemas
@pytest.mark.parametrize("minor", range(29, 34))
def test_objects_are_what_kubernetes_takes(minor):
    """Every object but KEDA's is valid by the schemas of each version, which know no other fields."""
    import kubernetes_validate

    def check(each):
        kubernetes_validate.validate(each, f"1.{minor}", strict=True)

    listed = [each for case in CASES for each in recorded(case).values()]
    own = [each for each in listed if not each["apiVersion"].startswith("keda.sh/")]
    assert (len(own), len(listed)) == (17, 19)
    for each in own:
        check(each)
    job = next(each for each in own if each["kind"] == "Job")
    with pytest.raises(kubernetes_validate.ValidationError, match="backoffLimits"):
        check(job | {"spec": job["spec"] | {"backoffLimits": 3}})


@pytest.mark.parametrize("case", CASES)
def test_pods_are_confined(case):
    """No process runs as root, writes to its image, or has a capability or a token; memory has a limit."""
    objects = recorded(case)
    dockerfile = (ROOT / "Dockerfile").read_text()
    for name in PODS:
        pod = pod_of(objects, name)
        (container,) = pod["containers"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert f"--uid {pod['securityContext']['runAsUser']}" in dockerfile
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]
        mounted = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
        assert {*mounted.values()} == {each["name"] for each in pod["volumes"]}
        assert {"/tmp", "/var/lib/bartserve"} <= mounted.keys()


@pytest.mark.parametrize("case", CASES)
def test_commands_and_settings_exist(case):
    """Every command is one of `bartserve`, every variable a setting; links of a Service look like none."""
    objects = recorded(case)
    settings = {f"BARTSERVE_{name.upper()}" for name in Settings.model_fields}
    for name in PODS:
        (container,) = pod_of(objects, name)["containers"]
        assert CliRunner().invoke(app, [container["command"][1], "--help"]).exit_code == 0
        variables = environment_of(objects, name)
        assert {each.removesuffix("_FILE") for each in variables} <= settings
        assert pod_of(objects, name)["enableServiceLinks"] is False  # BARTSERVE_PORT would be an address
        version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
        assert container["image"].endswith(f":{version}")
    assert environment_of(objects, "worker")["BARTSERVE_WORKER_SLOTS"] == "2"


def test_passwords_are_files_of_a_secret(team):
    """No password is in a variable; the Secret is the one that exists, or one made before the migration."""
    for name in PODS:
        variables = environment_of(team, name)
        assert variables["BARTSERVE_DATABASE_URL"].endswith(
            "@postgres.example:5432/bartserve?sslmode=require"
        )
        assert variables["BARTSERVE_REDIS_URL"] == "rediss://redis.example:6379/0"
        assert variables["BARTSERVE_DATABASE_PASSWORD_FILE"] == "/run/secrets/bartserve/database-password"
        volumes = {each["name"]: each for each in pod_of(team, name)["volumes"]}
        assert volumes["secret"]["secret"]["secretName"] == "bartserve-passwords"
    assert not any(each.startswith("Secret/") for each in team)
    small = recorded("small")
    secret, migration = (
        small[each]["metadata"]["annotations"] for each in ("Secret/bartserve", PODS["migrate"])
    )
    assert small["Secret/bartserve"]["stringData"]["database-password"] == "a-password"
    assert int(secret["helm.sh/hook-weight"]) < int(migration["helm.sh/hook-weight"])
    assert secret["helm.sh/hook"] == migration["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert "BARTSERVE_REDIS_URL" not in environment_of(small, "worker")


def test_each_selector_finds_its_pods(team):
    """Deployments, budgets, policies and the Service select what their names say."""
    labels = {
        name: team[PODS[name]]["spec"]["template"]["metadata"]["labels"]
        for name in ("api", "worker", "migrate")
    }

    def selected(selector):
        return {name for name, own in labels.items() if selector.items() <= own.items()}

    assert selected(team["Service/bartserve"]["spec"]["selector"]) == {"api"}
    for name in ("api", "worker"):
        for kind in (PODS[name], f"PodDisruptionBudget/bartserve-{name}"):
            assert selected(team[kind]["spec"]["selector"]["matchLabels"]) == {name}
    policies = [team[f"NetworkPolicy/{name}"]["spec"] for name in ("bartserve", "bartserve-api")]
    assert [selected(each["podSelector"]["matchLabels"]) for each in policies] == [{*PODS}, {"api"}]
    assert "ingress" not in policies[0]  # nobody reaches a worker
    reached = [port["port"] for rule in policies[0]["egress"] for port in rule["ports"]]
    assert reached == [53, 53, 5432, 6379, 443]


def test_health_scale_and_ends(team):
    """Probes ask routes and commands that exist; as many workers as there is work; there is time to end."""
    (container,) = pod_of(team, "api")["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/health/ready"
    assert container["livenessProbe"]["httpGet"]["path"] == "/health/live"
    (worker,) = pod_of(team, "worker")["containers"]
    assert CliRunner().invoke(app, [*worker["livenessProbe"]["exec"]["command"][1:], "--help"]).exit_code == 0
    assert pod_of(team, "api")["terminationGracePeriodSeconds"] >= 45
    assert pod_of(team, "worker")["terminationGracePeriodSeconds"] >= 40
    for kind in ("HorizontalPodAutoscaler/bartserve-api", "ScaledObject/bartserve-worker"):
        assert f"Deployment/{team[kind]['spec']['scaleTargetRef']['name']}" in team
        assert "replicas" not in team[f"Deployment/{kind.partition('/')[2]}"]["spec"]
    assert recorded("small")[PODS["api"]]["spec"]["replicas"] == 2
    limit = re.fullmatch(
        r"(\d+)m",
        team["Ingress/bartserve"]["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-body-size"],
    )
    assert int(limit[1]) * 2**20 == Settings.model_fields["max_body_bytes"].default
    assert environment_of(team, "api")["BARTSERVE_PUBLIC_URL"] == "https://bart.example"


def test_workers_are_counted_by_the_units_that_run_or_wait(database, team):
    """KEDA's query is one that the database answers: chains that wait, and those that run, not their ends."""
    (trigger,) = team["ScaledObject/bartserve-worker"]["spec"]["triggers"]
    factories.create_model(database.engine, num_chains=3)
    factories.claim(database.engine)
    with database.engine.connect() as connection:
        assert connection.execute(text(trigger["metadata"]["query"])).scalar() == 3
    assert trigger["metadata"]["targetQueryValue"] == environment_of(team, "worker")["BARTSERVE_WORKER_SLOTS"]


def test_every_value_is_used():
    """Each value of the chart is read by a template."""
    templates = "".join(file.read_text() for file in (CHART / "templates").iterdir())
    for name, value in yaml.safe_load((CHART / "values.yaml").read_text()).items():
        assert f".Values.{name}" in templates, name
        for entry in value if isinstance(value, dict) and name != "settings" else ():
            assert re.search(rf"\.Values\.{name}\.{entry}\b", templates), f"{name}.{entry}"
