"""The files of deploy/ are sound as far as this machine can say: their form, their commands, and what they lean on.

That the commands of the containers do what they are there for is shown by tests/live/test_deploy.py.
"""

import copy
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from tests.tidy import tidy_source as source
from wakeful.cli import cli
from wakeful.cli.exit_codes import USAGE
from wakeful.cli.settings_file import settings
from wakeful.http.rows import TABLE
from wakeful.policy.limits import Limits
from wakeful.server.embedded_server import FINISH_S
from wakeful.values.times import duration_ms

DEPLOY = source.ROOT / "deploy"
UNIT, DOCKERFILE = DEPLOY / "systemd" / "wakeful.service", DEPLOY / "docker" / "Dockerfile"
COMPOSE, MANIFEST = DEPLOY / "docker" / "compose.yaml", DEPLOY / "kubernetes" / "wakeful.yaml"
TOKEN, SECRET = DEPLOY / "kubernetes" / "token.yaml", DEPLOY / "kubernetes" / "secret.yaml"
SCRAPE = DEPLOY / "prometheus" / "kubernetes.yml"
STOP_S = FINISH_S + Limits().stop_deadline_ms / 1000  # requests, then turns
EXPOSURE_MAX = 2.0  # of systemd's ten; a unit without any hardening has 9.6
KNOWN = {one.env for one in settings().values()}


def check_command(args: list[str]) -> None:
    """`click.UsageError` when the command line would not understand it."""
    command: click.Command = cli
    ctx = click.Context(cli, info_name="wakeful")
    while isinstance(command, click.Group):
        name, *args = args
        found = command.get_command(ctx, name)
        assert found is not None, f"there is no command {name}"
        command, ctx = found, click.Context(found, parent=ctx, info_name=name)
    command.make_context(command.name, list(args), parent=ctx.parent)


def check_path(path: str) -> None:
    """Our server answers there, to somebody without a token."""
    route, _ = TABLE.find("GET", path.strip("/").split("/"))
    assert not route.scope, path


# systemd


def directives(text: str) -> dict[str, list[str]]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    section, found = "", {}
    for line in lines:
        if line.startswith("["):
            section = line.strip("[]")
        else:
            name, equals, value = line.partition("=")
            assert equals, line
            found.setdefault(f"{section}.{name}", []).append(value)
    return found


def test_the_unit_has_its_user_its_order_and_its_end() -> None:
    unit = directives(UNIT.read_text(encoding="utf-8"))
    assert unit["Service.User"] == ["wakeful"]
    assert "network-online.target" in unit["Unit.After"][0].split()
    assert "network-online.target" in unit["Unit.Wants"][0].split()
    assert unit["Install.WantedBy"] == ["multi-user.target"]
    assert unit["Service.KillSignal"] == ["SIGTERM"]
    assert int(unit["Service.TimeoutStopSec"][0]) > 2 * STOP_S
    program, *args = shlex.split(unit["Service.ExecStart"][0])
    assert Path(program).name == "wakeful"
    check_command(args)
    variables = {word.partition("=")[0] for line in unit["Service.Environment"] for word in shlex.split(line)}
    assert {name for name in variables if name.startswith("WAKEFUL_")} <= KNOWN
    assert unit["Service.RuntimeDirectory"] == ["wakeful"]
    assert "XDG_RUNTIME_DIR=/run/wakeful" in " ".join(unit["Service.Environment"])


# What puts a secret among the arguments of a process, which every user of the machine reads.
_TOLD = re.compile(r"\$\(cat [^)]*environment|--from-literal=(?!cluster)|(?:env|sudo)\b[^\n]*WAKEFUL_STORE=")


def test_nothing_puts_a_password_into_the_arguments_of_a_process() -> None:
    page = (source.ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    texts = {path.name: path.read_text(encoding="utf-8") for path in DEPLOY.rglob("*") if path.is_file()}
    assert {name: _TOLD.findall(text) for name, text in {**texts, "page": page}.items() if _TOLD.search(text)} == {}
    assert _TOLD.search("sudo -u wakeful env X=/run $(cat /etc/wakeful/environment) wakeful nodes")
    assert _TOLD.search("kubectl create secret generic wakeful --from-literal=store=postgresql://…")


def test_a_command_beside_the_unit_has_its_user_its_settings_and_its_folders() -> None:
    """With others it would look at another store, or find no node; with the unit's RuntimeDirectory it would remove it."""
    unit = directives(UNIT.read_text(encoding="utf-8"))
    page = (source.ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    for text in (page, UNIT.read_text(encoding="utf-8").replace("\n# ", "\n")):
        [found] = re.findall(r"systemd-run (.*?)/opt/wakeful/venv/bin/wakeful", text, re.S)
        given = dict(word.split("=", 1) for word in re.findall(r"(?:-p |--)(\w+=\S+)", found))
        assert given["uid"] == unit["Service.User"][0]
        assert given["EnvironmentFile"] == unit["Service.EnvironmentFile"][0].removeprefix("-")
        assert given["StateDirectory"] == unit["Service.StateDirectory"][0]
        assert given["setenv"] == "XDG_RUNTIME_DIR=/run/wakeful"
        assert "RuntimeDirectory" not in given
    assert page.index("tokens create ops") < page.index("systemctl enable")


def test_only_what_no_second_try_mends_is_not_tried_again() -> None:
    unit = directives(UNIT.read_text(encoding="utf-8"))
    assert unit["Service.RestartPreventExitStatus"] == [str(USAGE)]


def analysed(tmp_path: Path, text: str, *args: str) -> "subprocess.CompletedProcess[str]":
    """What systemd says of that unit; its program and folder are here, not where the unit is for."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze on this machine; the form is checked above")
    here = text.replace("/opt/wakeful/venv/bin/wakeful", str(Path(sys.executable).parent / "wakeful"))
    (tmp_path / "wakeful.service").write_text(here.replace("=/opt/wakeful/app\n", f"={tmp_path}\n"))
    command = ["systemd-analyze", *args, str(tmp_path / "wakeful.service")]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    text = UNIT.read_text(encoding="utf-8")
    said = analysed(tmp_path, text, "verify", "--man=no")
    assert (said.returncode, said.stdout + said.stderr) == (0, "")
    wrong = analysed(tmp_path, text.replace("ProtectSystem=strict", "ProtectSytem=strict"), "verify", "--man=no")
    assert "ProtectSytem" in wrong.stderr


def test_the_unit_is_hardened(tmp_path: Path) -> None:
    said = analysed(tmp_path, UNIT.read_text(encoding="utf-8"), "security", "--offline=true", "--no-pager")
    found = re.search(r"exposure level for \S+: ([0-9.]+)", said.stdout)
    assert found is not None, said.stdout + said.stderr
    assert float(found[1]) <= EXPOSURE_MAX


# Docker


def instructions(text: str) -> list[tuple[str, str]]:
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#")).replace("\\\n", " ").splitlines()
    return [(line.split()[0], line.split(maxsplit=1)[1].strip()) for line in lines if line.strip()]


def test_the_image_is_made_of_what_is_here_and_runs_as_nobody_special() -> None:
    steps = instructions(DOCKERFILE.read_text(encoding="utf-8"))
    project = tomllib.loads((source.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {name for name, _ in steps} <= {
        *("FROM", "COPY", "RUN", "ARG", "ENV", "USER", "WORKDIR", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK"),
        *("ENTRYPOINT", "CMD"),
    }
    for image in [rest for name, rest in steps if name == "FROM"]:
        version = re.match(r"python:3\.(\d+)-slim", image)
        assert version is not None, image
        assert f"Programming Language :: Python :: 3.{version[1]}" in project["classifiers"]
    extras = re.search(r'"/src\[([a-z,]+)\]"', dict(steps)["RUN"] + " ".join(rest for _, rest in steps))
    assert extras is not None
    assert set(extras[1].split(",")) <= set(project["optional-dependencies"])
    ignored = (DOCKERFILE.parent / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    program = next(rest for name, rest in steps if name == "ARG").removeprefix("PROGRAM=")
    for name, rest in steps:
        if name == "COPY" and not rest.startswith("--from"):
            for copied in rest.replace("${PROGRAM}", program).split()[:-1]:
                assert (source.ROOT / copied).exists(), copied
                assert f"!{copied.partition('/')[0]}" in ignored, copied
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", dict(steps)["USER"])
    assert [name for name, _ in steps].index("USER") < [name for name, _ in steps].index("ENTRYPOINT")


def test_what_the_image_runs_is_understood() -> None:
    steps = dict(instructions(DOCKERFILE.read_text(encoding="utf-8")))
    assert json.loads(steps["ENTRYPOINT"]) == ["wakeful"]
    command = json.loads(steps["CMD"])
    check_command(command)
    assert command[command.index("--http") + 1] == "0.0.0.0:7420", "what listens on 127.0.0.1 is reached from no other"
    assert steps["STOPSIGNAL"] == "SIGTERM"
    check_path(re.findall(r"7420(/\w+)'", steps["HEALTHCHECK"])[0])
    compile(json.loads(steps["HEALTHCHECK"].partition("CMD ")[2])[2], "HEALTHCHECK", "exec")
    assert set(re.findall(r"(WAKEFUL_\w+)=", steps["ENV"])) <= KNOWN


# Compose

SERVICE_KEYS = {
    *("image", "build", "command", "environment", "secrets", "depends_on", "restart", "init", "read_only", "tmpfs"),
    *("cap_drop", "security_opt", "stop_grace_period", "volumes", "healthcheck", "hostname", "ports"),
}


def compose_faults(compose: dict[str, Any]) -> Iterator[str]:
    services = compose["services"]
    if set(compose) - {"name", "services", "secrets", "volumes", "x-node"}:
        yield "an unknown part of the file"
    nodes = [one for one in services.values() if one.get("command", [""])[0] == "run"]
    if len(nodes) != 3:
        yield f"{len(nodes)} nodes"
    if len({(one["hostname"], one["environment"]["WAKEFUL_ADVERTISE"], one["ports"][0]) for one in nodes}) != 3:
        yield "two nodes at one address"
    for name, one in services.items():
        if set(one) - SERVICE_KEYS:
            yield f"{name}: {set(one) - SERVICE_KEYS}"
        if not set(one.get("depends_on", ())) <= set(services):
            yield f"{name}: waits for nobody"
        if not set(one.get("secrets", ())) <= set(compose["secrets"]):
            yield f"{name}: a secret that there is not"
        if any(volume.partition(":")[0] not in compose["volumes"] for volume in one.get("volumes", ())):
            yield f"{name}: a volume that there is not"
        if {key for key in one["environment"] if key.startswith("WAKEFUL_")} - KNOWN:
            yield f"{name}: a variable that there is not"
        if one in nodes and one["environment"]["WAKEFUL_ADVERTISE"] != f"{one['hostname']}:7400":
            yield f"{name}: dialled by another name"
        if one in nodes and duration_ms(one["stop_grace_period"], what="") < 2_000 * STOP_S:
            yield f"{name}: killed before it has stopped"


def test_compose_starts_three_nodes_and_a_database() -> None:
    compose = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    assert list(compose_faults(compose)) == []
    assert compose["services"]["db"]["image"].startswith("postgres:")
    for name, one in compose["services"].items():
        if name != "db":
            check_command(one["command"])
            context = (COMPOSE.parent / one["build"]["context"]).resolve()
            assert (context / one["build"]["dockerfile"]) == DOCKERFILE
    assert "password" not in re.sub(r"\$\{[^}]*\}|POSTGRES_PASSWORD", "", COMPOSE.read_text(encoding="utf-8")).lower()


# Kubernetes


def kubernetes() -> dict[str, Any]:
    texts = [path.read_text(encoding="utf-8") for path in (SECRET, MANIFEST, TOKEN)]
    found = [one for text in texts for one in yaml.safe_load_all(text)]
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in found}


VERSIONS = {
    "Secret": "v1",
    "Service": "v1",
    "PodDisruptionBudget": "policy/v1",
    "Job": "batch/v1",
    "StatefulSet": "apps/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
}
RELEASE = "1"  # of the files as they stand
MIGRATE = f"Job/wakeful-migrate-{RELEASE}"
PROBES = (("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz"))


def kubernetes_faults(parts: dict[str, Any]) -> Iterator[str]:
    for name, part in parts.items():
        if part["apiVersion"] != VERSIONS[part["kind"]]:
            yield f"{name}: {part['apiVersion']}"
    nodes = parts["StatefulSet/wakeful"]["spec"]
    labels = nodes["template"]["metadata"]["labels"].items()
    selectors = [
        nodes["selector"]["matchLabels"],
        parts["PodDisruptionBudget/wakeful"]["spec"]["selector"]["matchLabels"],
    ]
    selectors += [part["spec"]["selector"] for part in parts.values() if part["kind"] == "Service"]
    if not all(selector.items() <= labels for selector in selectors):
        yield "a selector that selects no pod of ours"
    for name in (MIGRATE, "Job/wakeful-token"):
        if any(
            selector.items() <= parts[name]["spec"]["template"]["metadata"]["labels"].items() for selector in selectors
        ):
            yield f"{name}: taken for a node"
    if parts[f"Service/{nodes['serviceName']}"]["spec"].get("clusterIP") != "None":
        yield "pods without names"
    if parts["PodDisruptionBudget/wakeful"]["spec"]["maxUnavailable"] >= nodes["replicas"] - 1:
        yield "all but one may be away"
    yield from (f"NetworkPolicy: {fault}" for fault in wall_faults(parts["NetworkPolicy/wakeful"]["spec"], nodes))
    images = {name: part["spec"]["template"]["spec"]["containers"][0]["image"] for name, part in pods(parts).items()}
    if len(set(images.values())) > 1:
        yield f"several images: {images}"
    if MIGRATE.rpartition("-")[2] != images[MIGRATE].rpartition(":")[2]:
        yield "a job of another release: what a finished one does can't be changed, so each has its own"
    if "ttlSecondsAfterFinished" not in parts[MIGRATE]["spec"]:
        yield "jobs of old releases stay"
    for name in pods(parts):
        yield from (f"{name}: {fault}" for fault in pod_faults(parts[name]["spec"]["template"]["spec"], parts))


def pods(parts: dict[str, Any]) -> dict[str, Any]:
    """Whatever has a container."""
    return {name: part for name, part in parts.items() if "template" in part.get("spec", {})}


def wall_faults(wall: dict[str, Any], nodes: dict[str, Any]) -> Iterator[str]:
    """Of the policy of who may connect: other nodes to their own port, everybody to HTTP."""
    labels = nodes["selector"]["matchLabels"]
    if wall["podSelector"]["matchLabels"] != labels or wall["policyTypes"] != ["Ingress"]:
        yield "other pods than the nodes"
    doors = {door["ports"][0]["port"]: door for door in wall["ingress"]}
    if set(doors) != {port["name"] for port in nodes["template"]["spec"]["containers"][0]["ports"]}:
        yield "a port that nobody gets to, or one that there is not"
    if doors["nodes"].get("from") != [{"podSelector": {"matchLabels": labels}}]:
        yield "strangers at the port between nodes"


def pod_faults(pod: dict[str, Any], parts: dict[str, Any]) -> Iterator[str]:
    container = pod["containers"][0]
    uid = int(re.findall(r"^USER (\d+):", DOCKERFILE.read_text(encoding="utf-8"), re.M)[0])
    if pod["securityContext"]["runAsUser"] != uid or not pod["securityContext"]["runAsNonRoot"]:
        yield "not the user of the image"
    if {one["name"] for one in container["volumeMounts"]} != {one["name"] for one in pod["volumes"]}:
        yield "a volume that is not mounted, or mounted and not there"
    keys = parts["Secret/wakeful"]["stringData"]
    used = [
        one["valueFrom"]["secretKeyRef"]["key"]
        for one in container["env"]
        if "secretKeyRef" in one.get("valueFrom", {})
    ]
    used += [item["key"] for volume in pod["volumes"] if "secret" in volume for item in volume["secret"]["items"]]
    if not set(used) <= set(keys):
        yield "a key that the secret has not"
    names = [one["name"] for one in container["env"]]
    if {name for name in names if name.startswith("WAKEFUL_")} - KNOWN:
        yield "a variable that there is not"
    for one in container["env"]:
        before = names[: names.index(one["name"])]
        if any(name not in before for name in re.findall(r"\$\((\w+)\)", one.get("value", ""))):
            yield "a value made of one that comes later"
    if "lifecycle" in container:
        drain = container["lifecycle"]["preStop"]["exec"]["command"]
        needed_s = duration_ms(drain[drain.index("--timeout") + 1], what="") / 1000 + 2 * STOP_S
        if pod["terminationGracePeriodSeconds"] < needed_s:
            yield "killed before it has stopped"


def test_the_manifest_holds_together() -> None:
    parts = kubernetes()
    assert {part["kind"] for part in parts.values()} == set(VERSIONS)
    assert list(kubernetes_faults(parts)) == []
    node = parts["StatefulSet/wakeful"]["spec"]["template"]["spec"]["containers"][0]
    ports = {one["name"]: one["containerPort"] for one in node["ports"]}
    args = node["args"]
    assert args[args.index("--http") + 1].endswith(f":{ports['http']}")
    assert args[args.index("--listen") + 1].endswith(f":{ports['nodes']}")
    advertise = next(one["value"] for one in node["env"] if one["name"] == "WAKEFUL_ADVERTISE")
    assert advertise == f"$(POD_NAME).wakeful-nodes.$(POD_NAMESPACE).svc:{ports['nodes']}"
    for probe, path in PROBES:
        assert node[probe]["httpGet"] == {"path": path, "port": "http"}
        check_path(path)
    assert [one["targetPort"] for one in parts["Service/wakeful"]["spec"]["ports"]] == ["http"]


def test_what_has_to_be_replaced_is_said_before_anything_else() -> None:
    page = (source.ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    for path in (MANIFEST, TOKEN, SECRET):
        text = path.read_text(encoding="utf-8")
        head = text[: text.index("apiVersion")]
        for word in re.findall(r"registry\.example\.com/[\w.:-]+\w|PASSWORD@db\.example\.com|REPLACE-WITH[\w-]+", text):
            assert word in head, (path.name, word)
            assert word in page, word


def test_what_https_asks_of_probes_is_said() -> None:
    assert "scheme: HTTPS" in MANIFEST.read_text(encoding="utf-8")
    assert "scheme: HTTPS" in (source.ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")


def test_prometheus_finds_the_pods_of_the_manifest() -> None:
    [scrape] = yaml.safe_load(SCRAPE.read_text(encoding="utf-8"))["scrape_configs"]
    labels = kubernetes()["StatefulSet/wakeful"]["spec"]["template"]["metadata"]["labels"]
    assert scrape["kubernetes_sd_configs"][0]["role"] == "pod"
    kept = {
        tuple(rule["source_labels"]): rule["regex"]
        for rule in scrape["relabel_configs"]
        if rule.get("action") == "keep"
    }
    meta = {f"__meta_kubernetes_pod_label_{re.sub('[./-]', '_', name)}": value for name, value in labels.items()}
    assert kept == {
        **{(name,): value for name, value in meta.items()},
        ("__meta_kubernetes_pod_container_port_name",): "http",
    }
    assert scrape["metrics_path"] == "/metrics"
    assert scrape["authorization"]["credentials_file"].endswith("wakeful.token")


def test_what_the_manifest_runs_is_understood() -> None:
    parts = kubernetes()
    for name in ("StatefulSet/wakeful", MIGRATE, "Job/wakeful-token"):
        container = parts[name]["spec"]["template"]["spec"]["containers"][0]
        check_command(container["args"])
        assert "command" not in container, "the image's own, which is wakeful"
    node = parts["StatefulSet/wakeful"]["spec"]["template"]["spec"]["containers"][0]
    program, *args = node["lifecycle"]["preStop"]["exec"]["command"]
    assert program == "wakeful"
    check_command(args)


# The checks themselves find what they are for.


def _of(pod: str) -> Callable[[Any], Any]:
    return lambda parts: parts[pod]["spec"]["template"]["spec"]


@pytest.mark.parametrize(
    ("fault", "mistake"),
    [
        ("selector", lambda parts: parts["Service/wakeful"]["spec"]["selector"].update({"app": "x"})),
        ("away", lambda parts: parts["PodDisruptionBudget/wakeful"]["spec"].update(maxUnavailable=2)),
        ("names", lambda parts: parts["Service/wakeful-nodes"]["spec"].pop("clusterIP")),
        ("killed", lambda parts: _of("StatefulSet/wakeful")(parts).update(terminationGracePeriodSeconds=30)),
        ("secret", lambda parts: parts["Secret/wakeful"]["stringData"].pop("store")),
        (
            "variable",
            lambda parts: _of("Job/wakeful-token")(parts)["containers"][0]["env"][0].update(name="WAKEFUL_STOER"),
        ),
        ("later", lambda parts: _of("StatefulSet/wakeful")(parts)["containers"][0]["env"].reverse()),
        ("strangers", lambda parts: parts["NetworkPolicy/wakeful"]["spec"]["ingress"][0].pop("from")),
        ("nobody gets to", lambda parts: parts["NetworkPolicy/wakeful"]["spec"]["ingress"].pop()),
        (
            "images",
            lambda parts: _of("Job/wakeful-token")(parts)["containers"][0].update(image="registry.example.com/x:2"),
        ),
        (
            "release",
            lambda parts: [
                part["spec"]["template"]["spec"]["containers"][0].update(image="registry.example.com/wakeful-app:2")
                for part in pods(parts).values()
            ],
        ),
        ("volume", lambda parts: _of("StatefulSet/wakeful")(parts)["volumes"].pop()),
        ("user", lambda parts: _of(MIGRATE)(parts)["securityContext"].update(runAsUser=0)),
        ("v1beta1", lambda parts: parts["PodDisruptionBudget/wakeful"].update(apiVersion="policy/v1beta1")),
    ],
)
def test_a_mistake_in_the_manifest_is_found(fault: str, mistake: Callable[[Any], Any]) -> None:
    parts = copy.deepcopy(kubernetes())
    mistake(parts)
    assert any(fault in found for found in kubernetes_faults(parts))


def test_a_mistake_in_the_compose_file_or_a_command_is_found() -> None:
    compose = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    compose["services"]["node2"]["environment"]["WAKEFUL_ADVERTISE"] = "node1:7400"
    compose["services"]["node3"]["stop_grace_period"] = "10s"
    assert list(compose_faults(compose)) == ["node2: dialled by another name", "node3: killed before it has stopped"]
    for args in (["run", "app.py:app", "--htpp", "x"], ["tokens", "create"], ["drain", "--timeout"]):
        with pytest.raises(click.UsageError):
            check_command(args)
