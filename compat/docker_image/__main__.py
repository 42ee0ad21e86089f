"""The image, built from the Dockerfile and run: everything that a Docker user sees, without Docker.

`buildah` builds and runs it on a replacement of the base image (`engine`). Clients connect over the container's ports, as
published. The suite starts it as each stock Kafka module of testcontainers does (`testcontainers`). Docker Compose itself reads
the compose files, and the suite runs them.
"""

import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from ..support.certificates import HOSTS, Certificates
from ..support.suite import NotRunError, Options, Suite, run_suite
from . import engine
from .composing import services
from .engine import Container
from .testcontainers import CLUSTER_ID, FORMAT, KRAFT, MODULES, ONE_BROKER, Module

ADDRESS = "localhost:9092"
OUTSIDE = 32768
"""The random port of the host that testcontainers was given."""
BUILD_TOOLS = "gcc cc ld make cython pip"


def body(suite: Suite, options: Options) -> None:
    engine.base(make=not options.quick)
    if options.quick:
        if not engine.has_image(engine.IMAGE):
            raise NotRunError("a built image in the cache; without --quick it is built")
        image = engine.refreshed()
        serves(suite, image)
        acted_out(suite, MODULES[0], image)
        return
    built = engine.build(engine.IMAGE)
    if not suite.check(
        "the image builds", built.returncode == 0, built.stderr.strip()[-400:] if built.returncode else ""
    ):
        return
    parts: list[Callable[[Suite], None]] = [serves, says, commands, addresses, environment, lasting, security]
    parts += [partial(acted_out, module=module) for module in MODULES]
    for part in (*parts, acted_out_with_logins, composed, no_kernel):
        try:
            part(suite)
        except RuntimeError as error:
            suite.check(f"{part} runs to its end", False, error)


def serves(suite: Suite, image: str = engine.IMAGE) -> None:
    """`docker run IMAGE`, and `docker stop`."""
    with Container(image=image) as box:
        says_so(suite, "it says ready", box, r"^ready 0\.0\.0\.0:9092$")
        suite.check("the health check: healthy", box.healthy())
        seen = box.client("round", ADDRESS)
        suite.equal(
            "a client receives localhost:9092, writes and reads", (["0 localhost:9092"], 0, 10), tuple(seen.values())
        )
        listed = box.execute("ottla", "topics", "list").stdout
        suite.check("`docker exec … ottla topics list`", "round" in listed, "" if "round" in listed else listed)
        version = box.execute("ottla", "--version").stdout
        suite.check("the kernel is compiled", "compiled" in version, version.strip())
        suite.check("data are in /var/lib/ottla", "round-0" in box.execute("ls", "/var/lib/ottla").stdout)
        code, seconds = box.stop()
        suite.equal(f"SIGTERM stops it cleanly, in {seconds:.1f} s", 0, code)


def says_so(suite: Suite, what: str, box: Container, pattern: str) -> bool:
    """Check that a line of the output matches in time."""
    found = box.wait_for(pattern)
    return suite.check(what, found, "" if found else box.said()[-800:])


def says(suite: Suite) -> None:
    """Check the image's metadata, and that files that do not belong there are absent."""
    config = engine.config(engine.IMAGE)
    suite.check(
        "its user is a number, and not root's", config["User"].isdigit() and config["User"] != "0", config["User"]
    )
    suite.check("it makes no anonymous volume", not config.get("Volumes"))
    suite.equal("it exposes the port", {"9092/tcp": {}}, config["ExposedPorts"])
    labels = {
        name.rpartition(".")[2] for name, text in config["Labels"].items() if name.startswith("org.opencontainers")
    }
    suite.check("its labels are OCI's", labels >= {"title", "description", "licenses", "version", "revision"}, labels)
    with Container("sh", "-c", f"command -v {BUILD_TOOLS}; id -u; touch /opt/ottla/x /etc/x; exit 0") as box:
        suite.equal("a shell in it ends with its own code", 0, box.ended())
        lines = box.said().splitlines()
        suite.equal(
            "neither root nor build tools are in it", ["10001"], [line for line in lines if "touch" not in line]
        )
        suite.equal("its user may not change it", 2, sum("Permission denied" in line for line in lines))
    ours, base = engine.size_bytes(engine.IMAGE), engine.size_bytes(engine.BASE)
    packed = engine.packed_bytes(engine.IMAGE, engine.BASE)
    suite.note(f"size: {(ours - base) / 1e6:.0f} MB beside the base's, unpacked; {packed / 1e6:.0f} MB packed")


def commands(suite: Suite) -> None:
    """Check other arguments after the image's name."""
    for words, code, said in (
        (("--version",), 0, "compiled"),
        (("--help",), 0, "usage: ottla serve"),
        (("help",), 0, "a broker on localhost:9092"),
        (("topics", "list", "--bootstrap", "localhost:1"), 2, "localhost:1"),
        (("describe-config", "log.dirs"), 0, "log.dirs"),
        (("topcs",), 2, "did you mean topics"),
        (("--node", "2"), 2, "did you mean --nodes"),
        (("bash", "-c", "echo $0 $BASH_VERSION; exit 7"), 7, "bash "),
        (("/opt/ottla/bin/python", "-c", "import ottla; print('library', ottla.__version__)"), 0, "library"),
    ):
        with Container(*words) as box:
            ended = box.ended()
            suite.check(
                f"docker run IMAGE {' '.join(words)[:60]}", ended == code and said in box.said(), box.said()[-150:]
            )
    with Container("dev") as box:
        suite.check("docker run IMAGE dev: prints commands to paste", box.wait_for("KafkaConsumer"))
        status = box.execute("ottla", "status")
        suite.check(
            "… and `docker exec … ottla status` finds the admin listener", status.returncode == 0, status.stderr[-200:]
        )
    with Container("dev", environment={"OTTLA_ADMIN_TOKEN": "0123456789abcdef0123"}) as box:
        box.wait_for("KafkaConsumer")
        status = box.execute("ottla", "status", "--admin", "127.0.0.2:9099")
        suite.check("… which with a token listens everywhere", status.returncode == 0, status.stderr[-200:])


def addresses(suite: Suite) -> None:
    """Check that options add to the defaults."""
    for words, variables, bootstrap, told in (
        (("--profile", "dev"), {}, ADDRESS, ["0 localhost:9092"]),
        (("--nodes", "3"), {}, ADDRESS, [f"{index} localhost:{9092 + index}" for index in range(3)]),
        (("--listener", "0.0.0.0:7000"), {}, "localhost:7000", ["0 localhost:7000"]),
        (("--override", "node.id=5"), {}, ADDRESS, ["5 localhost:9092"]),
        ((), {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://box:19092"}, "box:19092", ["0 box:19092"]),
        ((), {"KAFKA_LISTENERS": "PLAINTEXT://:7001"}, "localhost:7001", ["0 localhost:7001"]),
        ((), {"OTTLA_NODES": "2", "OTTLA_PROFILE": "dev"}, ADDRESS, ["0 localhost:9092", "1 localhost:9093"]),
    ):
        with Container(*words, environment=variables) as box:
            ready = box.wait_for("^ready ")
            what = " ".join([*(f"-e {name}={text}" for name, text in variables.items()), *words])
            suite.equal(f"{what}: clients receive", told, box.client("told", bootstrap) if ready else box.said()[-300:])
            suite.check(f"{what}: healthy", box.healthy())


def environment(suite: Suite) -> None:
    """Check the environment variables that users of Kafka's images set."""
    usual = {
        **ONE_BROKER,
        **KRAFT,
        "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:19092,CONTROLLER://0.0.0.0:9094",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092,BROKER://box:19092",
        "KAFKA_LOG_DIRS": "/var/lib/kafka/data",
        "KAFKA_HEAP_OPTS": "-Xmx1G -Xms1G",
        "KAFKA_JMX_PORT": "9999",
        "KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "true",
        "KAFKA_PORT": "tcp://10.0.0.1:9092",
        "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
        "KAFKA_NUM_PARTITIONS": "4",
    }
    with Container(environment=usual) as box:
        says_so(suite, "the environment of a broker of Kafka's images", box, "^ready ")
        suite.equal("… its address and id", ["1 localhost:9092"], box.client("told", ADDRESS))
        described = box.execute("ottla", "configs", "describe", "broker:1", "num.partitions", "--json")
        suite.check("… its options", '"4"' in described.stdout, described.stdout + described.stderr)
        warned = [line for line in box.said().splitlines() if "environment variable" in line]
        suite.check(
            "… options without effect are reported in one line", len(warned) == 1 and "ZOOKEEPER" in warned[0], warned
        )
        suite.check(
            "… and the cluster has its id", CLUSTER_ID in (box.root / "var/lib/ottla/meta.properties").read_text()
        )
    for variables, said in (
        ({"KAFKA_PROCESS_ROLES": "controller"}, "KAFKA_PROCESS_ROLES=controller"),
        ({"KAFKA_CONTROLLER_QUORUM_VOTERS": "1@a:9093,2@b:9093"}, "names 2 controllers"),
        ({"KAFKA_LOG_RETENTION_MS": "soon"}, "log.retention.ms"),
    ):
        with Container(environment=variables) as box:
            code = box.ended()
            refused(suite, next(iter(variables)), box, code, said)


def refused(suite: Suite, what: str, box: Container, code: int, said: str) -> None:
    lines = [line for line in box.said().splitlines() if line.startswith("ottla: ")]
    good = code == 2 and len(lines) == 1 and said in lines[0]
    suite.check(f"{what}: refused in a line", good, lines[0] if good else box.said()[-200:])


def lasting(suite: Suite) -> None:
    """Data outlive the container in a volume, and it a kill."""
    with tempfile.TemporaryDirectory(prefix="compat-volume-") as volume:
        Path(volume).chmod(0o777)
        mounted = {"/var/lib/ottla": volume}
        with Container(volumes=mounted) as box:
            box.wait_for("^ready ")
            suite.equal("a volume: records are written", 10, box.client("round", ADDRESS)["read"])
            code, _ = box.stop()
            suite.equal("… it stops", 0, code)
            box.start()
            says_so(suite, "… docker start", box, "^ready ")
            box.client("write", ADDRESS, "round", "5")
            box.kill()
        with Container(volumes=mounted) as box:
            box.wait_for("^ready ")
            suite.equal("… another container of the same volume has them all", 15, box.client("read", ADDRESS, "round"))
    with tempfile.TemporaryDirectory(prefix="compat-volume-") as volume:
        Path(volume).chmod(0o755)
        with Container(volumes={"/var/lib/ottla": volume}) as box:
            code = box.ended()
            refused(suite, "a volume that its user may not write to", box, code, "/var/lib/ottla")
        os.chown(volume, 4711, 4711)
        with Container(volumes={"/var/lib/ottla": volume}, user="4711:4711") as box:
            says_so(suite, "any user serves who may", box, "^ready ")
            suite.equal("… in its directory", 10, box.client("round", ADDRESS)["read"])
            suite.check("… and is healthy", box.healthy())


def security(suite: Suite) -> None:
    """Check that the health check follows the protocol and the port."""
    for words in (("--tls",), ("--user", "alice:secret"), ("--tls", "--user", "alice:secret")):
        with Container(*words) as box:
            says_so(suite, f"{' '.join(words)}: serves", box, "^ready ")
            suite.check(f"{' '.join(words)}: healthy", box.healthy())
            suite.equal(f"{' '.join(words)}: stops", 0, box.stop()[0])


def acted_out(suite: Suite, module: Module, image: str = engine.IMAGE) -> None:
    """Follow one module's way to start a container, up to a client of the port on the host."""
    with Container(*module.words(), environment=module.environment, entrypoint=module.entrypoint, image=image) as box:
        copy_script(box, module)
        if says_so(suite, f"{module.name}: has the words that it waits for", box, module.ready):
            seen = box.client("round", f"localhost:{OUTSIDE}", f"{OUTSIDE}:{module.public}")
            host = "127.0.0.1" if module.by_exec else "localhost"
            suite.equal(f"{module.name}: a client on the host", ([f"1 {host}:{OUTSIDE}"], 0, 10), tuple(seen.values()))
            suite.check(f"{module.name}: healthy", box.healthy())
        noise = [line for line in box.said().splitlines() if re.search("denied|not found|No such", line)]
        suite.check(f"{module.name}: nothing in its script fails", not noise, noise or "")


def copy_script(box: Container, module: Module) -> None:
    script = module.script.replace("{host}", "localhost").replace("{port}", str(OUTSIDE)).replace("{name}", box.name)
    if module.by_exec:
        box.execute("sh", "-c", f"echo '{script}' > {module.path}")
    else:
        box.copy(script, module.path, module.mode)


def acted_out_with_logins(suite: Suite) -> None:
    """testcontainers-node's `withSaslSslListener`: a PKCS#12 store, and a user whom its script has formatted in."""
    node = next(module for module in MODULES if module.name.startswith("node"))
    with tempfile.TemporaryDirectory(prefix="compat-tls-") as folder:
        certificates = Certificates(Path(folder))
        password = "serverKeystorePassword"
        server = certificates.authority.issue("localhost", HOSTS)
        store = server.pkcs12("localhost", password, certificates.authority.certificate)
        variables = {
            **node.environment,
            "KAFKA_LISTENERS": "SECURE://0.0.0.0:9096,PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092,CONTROLLER://0.0.0.0:9094",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT",
            "KAFKA_SSL_PROTOCOL": "TLSv1.2",
            "KAFKA_SSL_KEYSTORE_LOCATION": "/etc/kafka/secrets/server.keystore.pfx",
            "KAFKA_SSL_KEYSTORE_PASSWORD": password,
            "KAFKA_SSL_KEYSTORE_TYPE": "PKCS12",
            "KAFKA_SASL_ENABLED_MECHANISMS": "SCRAM-SHA-512",
            "KAFKA_LISTENER_NAME_SECURE_SCRAM-SHA-512_SASL_JAAS_CONFIG": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
        }
        user = (
            FORMAT.splitlines()[1]
            .replace("{id}", CLUSTER_ID)
            .replace(
                "kafka.properties'",
                'kafka.properties --add-scram "SCRAM-SHA-512=[name=app-user,password=userPassword]"\'',
            )
        )
        script = f"#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS=BROKER://box:9092,PLAINTEXT://localhost:{OUTSIDE},SECURE://localhost:9096\n{user}\n/etc/confluent/docker/run \n"
        box = Container(*node.words(), environment=variables, entrypoint=node.entrypoint)
        target = box.root / "etc/kafka/secrets/server.keystore.pfx"
        target.write_bytes(store)
        target.chmod(0o644)
        with box:
            box.copy(script, node.path, node.mode)
            says_so(suite, "node, SASL_SSL: serves", box, node.ready)
            client = {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "app-user",
                "sasl.password": "userPassword",
                "ssl.ca.location": str(certificates.ca),
            }
            seen = box.client("round", "localhost:9096", properties=client)
            suite.equal("node, SASL_SSL: its user writes", (["1 localhost:9096"], 0), (seen["said"], seen["left"]))


def composed(suite: Suite) -> None:
    """Check that the compose files are valid for Docker Compose, and that their services serve."""
    for path in sorted((engine.ROOT / "docker").glob("compose*.yaml")):
        found = services(path)
        if isinstance(found, str):
            suite.skip(f"{path.name} is valid", found)
            return
        suite.check(f"{path.name} is valid", True)
        for name, service in found.items():
            with Container(*service.words, environment=service.environment, volumes=service.volumes, name=name) as box:
                says_so(suite, f"{path.name}: {name} serves", box, "^ready ")
                suite.check(f"{path.name}: {name} is healthy", box.healthy())
                checks: Mapping[str, Callable[[Suite, Container], None]] = {
                    "compose.yaml": plain_compose,
                    "compose.security.yaml": secure_compose,
                }
                checks[path.name](suite, box)


def plain_compose(suite: Suite, box: Container) -> None:
    suite.equal("compose.yaml: from the host", ["0 localhost:9092"], box.client("told", ADDRESS))
    suite.equal("compose.yaml: from another container", ["0 ottla:29092"], box.client("told", "ottla:29092"))
    suite.equal("compose.yaml: records", 10, box.client("round", ADDRESS)["read"])
    for place, host in (("the host", "localhost"), ("another container", "ottla")):
        found = box.client("schemas", f"http://{host}:8081", "registry-secret")
        suite.equal(f"compose.yaml: schemas, from {place}", ["orders-value"], found)


def secure_compose(suite: Suite, box: Container) -> None:
    trusted = str(box.root / "var/lib/ottla/ottla-tls-ca.pem")
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256", "ssl.ca.location": trusted}
    admin = {**login, "sasl.username": "admin", "sasl.password": "admin-secret"}
    alice = {**login, "sasl.username": "alice", "sasl.password": "alice-secret"}
    name = "compose.security.yaml"
    suite.equal(f"{name}: admin, from the host", ["0 localhost:9092"], box.client("told", ADDRESS, properties=admin))
    suite.equal(f"{name}: … from a container", ["0 ottla:29092"], box.client("told", "ottla:29092", properties=admin))
    suite.equal(f"{name}: alice writes orders", 0, box.client("write", ADDRESS, "orders", "3", properties=alice))
    try:
        box.client("round", ADDRESS, properties=alice)
        refused = ""
    except RuntimeError as error:
        refused = str(error)
    suite.check(f"{name}: alice makes no topics", "AUTHORIZATION" in refused.upper(), refused[:200])


def no_kernel(suite: Suite) -> None:
    """Check that an image without the compiled kernel is not built."""
    text = engine.DOCKERFILE.read_text()
    step = "RUN /opt/ottla/bin/pip install --no-cache-dir --no-deps ."
    suite.equal("the step that compiles", 1, text.count(step))
    with tempfile.NamedTemporaryFile("w", suffix=".Dockerfile") as file:
        file.write(text.replace(step, step.replace("RUN ", "RUN CC=false ")))
        file.flush()
        built = engine.build("localhost/without-kernel", file=Path(file.name))
    said = built.stdout + built.stderr
    suite.check(
        "the build fails without a compiler",
        built.returncode != 0 and "the kernel was not compiled" in said,
        said[-200:],
    )


if __name__ == "__main__":
    sys.exit(run_suite("docker_image", body, doc=__doc__))
