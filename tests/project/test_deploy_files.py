"""The files for containers agree with the code: settings exist, metrics are emitted, health is checked everywhere."""

import inspect
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from headway.runtime import health

ROOT = Path(__file__).parents[2]
OWN = {
    "coordinator-1": "coordinator",
    "coordinator-2": "coordinator",
    "relay": "relay",
    "timers": "timers",
    "worker": "worker",
}
# Nothing in their images could run a check; `migrate` ends.
WITHOUT_HEALTH_CHECK = {"migrate", "otel-collector", "tempo"}


def read_yaml(path: str) -> Any:
    # Compose merges maps by `<<`, which is YAML 1.1.
    loader = YAML(typ="safe", pure=True)
    loader.version = (1, 1)
    return loader.load((ROOT / path).read_text(encoding="utf-8"))


@cache
def compose() -> Any:
    return read_yaml("docker-compose.yml")


@cache
def dockerfile() -> dict[str, list[str]]:
    """The instructions of each stage, by its name."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    stages: dict[str, list[str]] = {}
    for line in text.splitlines():
        if begin := re.fullmatch(r"FROM \S+ AS (\S+)", line):
            stages[begin[1]] = [line]
        elif line and not line.startswith("#"):
            stages[list(stages)[-1]].append(line)
    return stages


@cache
def sources() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("services/*/src/**/*.py")))


def settings() -> set[str]:
    return set(re.findall(r'setting\(\s*"([A-Z_]+)"', sources()))


def test_every_service_has_a_health_check() -> None:
    stages = dockerfile()

    missing = {
        name
        for name, service in compose()["services"].items()
        if "test" not in service.get("healthcheck", {}) and not (name in OWN and "healthcheck" not in service)
    }

    assert missing == WITHOUT_HEALTH_CHECK
    assert any(line.startswith("HEALTHCHECK") for line in stages["service"])
    assert all(stages[kind][0].startswith("FROM service ") for kind in OWN.values())


def test_the_health_check_asks_where_each_service_listens() -> None:
    check = next(line for line in dockerfile()["service"] if line.startswith("HEALTHCHECK"))

    for kind in set(OWN.values()):
        assert f"ENV HEADWAY_{kind.upper()}_LISTEN=0.0.0.0:7710" in dockerfile()[kind]
    assert '"127.0.0.1:7710"' in check
    assert (ROOT / "services/runtime/src/headway/runtime/health.py").exists()


def test_a_health_check_may_begin_slowly_and_still_give_the_service_its_time() -> None:
    check = next(line for line in dockerfile()["service"] if line.startswith("HEALTHCHECK"))
    allowed = re.search(r"--timeout=(\d+)s", check)
    assert allowed is not None

    waits = inspect.signature(health.fault).parameters["timeout_seconds"].default

    assert int(allowed[1]) >= waits + 20


def test_every_published_port_can_be_set_and_stands_in_the_table() -> None:
    published = {name: port for name, service in compose()["services"].items() for port in service.get("ports", ())}

    form = re.compile(r"127\.0\.0\.1:\$\{(HEADWAY_\w+):-(\d+)\}:\d+")
    ports = {name: form.fullmatch(port) for name, port in published.items()}

    fixed = [name for name, port in ports.items() if port is None]
    assert fixed == []
    rows = re.findall(r"^\| `(HEADWAY_\w+)` \| (\d+) \| `([\w-]+)` \|", operations(), re.MULTILINE)
    assert {(port[1], port[2], name) for name, port in ports.items() if port is not None} == set(rows)
    assert len(ports) == len({variable for variable, _, _ in rows}) == 3


def operations() -> str:
    return (ROOT / "docs/operations.md").read_text(encoding="utf-8")


def test_images_do_not_run_as_root() -> None:
    assert "USER headway" in dockerfile()["service"]


@pytest.mark.parametrize("name", [*OWN, "migrate"])
def test_every_variable_of_a_service_is_a_setting(name: str) -> None:
    given = set(compose()["services"][name]["environment"])

    assert {each for each in given if each.startswith("HEADWAY_")} <= settings()


def test_every_variable_of_an_image_is_a_setting() -> None:
    variables = {
        variable
        for lines in dockerfile().values()
        for line in lines
        for variable in re.findall(r"\b(HEADWAY_\w+)=", line)
    }

    assert variables
    assert variables <= settings()


def test_replicas_of_a_service_can_be_told_apart_in_metrics() -> None:
    named = {
        name: service["environment"]["OTEL_RESOURCE_ATTRIBUTES"]
        for name, service in compose()["services"].items()
        if "OTEL_RESOURCE_ATTRIBUTES" in service.get("environment", {})
    }

    # What `--scale` multiplies has no name here: each process finds one by itself.
    assert named == {name: f"service.instance.id={name}" for name in ("coordinator-1", "coordinator-2")}


def test_the_worker_does_not_know_the_database() -> None:
    worker = compose()["services"]["worker"]

    assert "HEADWAY_DATABASE_URL" not in worker["environment"]
    assert "postgres" not in worker["depends_on"]


def test_services_wait_for_what_they_need() -> None:
    services = compose()["services"]

    for name in ("coordinator-1", "coordinator-2"):
        assert services[name]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
    for name in ("relay", "timers", "worker"):
        assert services[name]["depends_on"]["coordinator-1"]["condition"] == "service_healthy"


def test_a_service_may_drain_before_it_is_killed() -> None:
    declared = re.search(r'"HEADWAY_DRAIN_TIMEOUT",\s*default=timedelta\(seconds=(\d+)\)', sources())
    assert declared is not None

    for name in OWN:
        assert int(compose()["services"][name]["stop_grace_period"].removesuffix("s")) > int(declared[1])


def test_mounted_files_exist() -> None:
    mounts = [
        volume.split(":")[0]
        for service in compose()["services"].values()
        for volume in service.get("volumes", [])
        if volume.startswith("./")
    ]

    assert mounts
    assert [mount for mount in mounts if not (ROOT / mount).exists()] == []


def test_copied_paths_exist() -> None:
    copied = [
        path
        for lines in dockerfile().values()
        for line in lines
        if line.startswith("COPY ") and "--from=" not in line
        for path in line.split()[1:-1]
    ]

    assert copied
    assert [path for path in copied if not (ROOT / path).exists()] == []


@cache
def dashboard() -> Any:
    return json.loads((ROOT / "deploy/grafana/dashboards/headway.json").read_text(encoding="utf-8"))


def emitted() -> dict[str, str]:
    """The instruments that the code makes: kind by name as Prometheus spells it."""
    made = re.findall(r'create_(\w+)\(\s*"(headway\.[a-z_.]+)"', sources())
    return {name.replace(".", "_"): kind for kind, name in made}


def test_the_dashboard_asks_only_for_metrics_that_the_code_emits() -> None:
    instruments = emitted()

    asked = {
        name
        for panel in dashboard()["panels"]
        for target in panel["targets"]
        for name in re.findall(r"\bheadway_\w+", target.get("expr", ""))
    }

    assert len(asked) == 12
    for name in asked:
        if name.endswith("_bucket"):
            assert instruments[name.removesuffix("_bucket")] == "histogram"
        else:
            assert "histogram" not in instruments[name]


def documented() -> dict[str, str]:
    """The metrics that operations.md lists: kind by name as Prometheus spells it."""
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(headway\.[a-z_.]+)` \| (\w+) \| (\w+) \|", page, re.MULTILINE)
    return {name.replace(".", "_"): kind for name, kind, _ in rows}


def test_every_metric_that_is_emitted_is_documented_and_no_other() -> None:
    assert documented() == {name: kind.removeprefix("observable_") for name, kind in emitted().items()}


def alerts() -> list[Any]:
    return [rule for group in read_yaml("deploy/alerts.yml")["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_alerts_ask_only_for_metrics_that_the_code_emits(rule: Any) -> None:
    names = set(re.findall(r"\bheadway_\w+", rule["expr"]))

    assert names
    assert {name.removesuffix("_bucket") for name in names} <= emitted().keys()
    assert rule["annotations"]["summary"]


def test_the_alerts_are_loaded() -> None:
    assert read_yaml("deploy/prometheus.yml")["rule_files"] == ["alerts.yml"]
    assert "./deploy/alerts.yml:/etc/prometheus/alerts.yml:ro" in compose()["services"]["prometheus"]["volumes"]


def test_the_dashboard_uses_provisioned_sources() -> None:
    provisioned = {
        each["uid"] for each in read_yaml("deploy/grafana/provisioning/datasources/headway.yml")["datasources"]
    }

    used = {panel["datasource"]["uid"] for panel in dashboard()["panels"]}

    assert used == provisioned


def test_the_names_of_metrics_reach_prometheus_unchanged() -> None:
    collector = read_yaml("deploy/otel-collector.yml")
    scraped = read_yaml("deploy/prometheus.yml")["scrape_configs"][0]

    assert collector["exporters"]["prometheus"]["add_metric_suffixes"] is False
    assert scraped["honor_labels"] is True
    assert scraped["static_configs"] == [{"targets": ["otel-collector:9464"]}]
