"""Addresses that work, addresses that don't with the remedy, and TLS with certificates made here."""

import asyncio
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.unit.links_stage import Sample, a_call, real
from wakeful.testing.timewarp import Timewarp
from wakeful.transport import addresses
from wakeful.transport.addresses import Address, parse
from wakeful.transport.tls import Tls
from wakeful.values.errors import AddressInUse, BadAddress, LinkLost, Unreachable, WrongCertificate


@pytest.mark.parametrize(
    ("text", "address", "again"),
    [
        ("10.0.0.5:7400", Address(host="10.0.0.5", port=7400), "tcp:10.0.0.5:7400"),
        ("tcp:db.local:1", Address(host="db.local", port=1), "tcp:db.local:1"),
        ("[::1]:7400", Address(host="::1", port=7400), "tcp:[::1]:7400"),
        ("unix:/run/a.sock", Address(path="/run/a.sock"), "unix:/run/a.sock"),
    ],
)
def test_an_address_is_read_and_written(text: str, address: Address, again: str) -> None:
    assert parse(text) == address
    assert str(address) == again
    assert parse(again) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host",
        "host:",
        ":7400",
        "host:port",
        "host:70000",
        "host:0",
        "host:-1",
        "::1:7400",
        "a b:1",
        "http://a:1",
        "unix:",
    ],
)
def test_what_is_no_address_is_told_so(text: str) -> None:
    with pytest.raises(BadAddress):
        parse(text)


def test_a_path_that_no_socket_can_have_is_told_so() -> None:
    with pytest.raises(BadAddress, match="whole path"):
        parse("unix:a.sock")
    with pytest.raises(BadAddress, match="no port"):
        parse("host:٣")
    with pytest.raises(BadAddress, match="121 bytes"):
        parse("unix:/" + "x" * 120)


def test_some_are_for_listening_only() -> None:
    assert parse("0.0.0.0:0", is_listening=True).is_wildcard
    assert parse("unix:", is_listening=True).is_unix
    assert [parse(text).is_loopback for text in ("127.0.0.9:1", "[::1]:1", "localhost:1", "unix:/a", "10.0.0.1:1")] == [
        True,
        True,
        True,
        True,
        False,
    ]


async def test_an_address_in_use_is_told_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(AddressInUse, match="choose another"):
        await real("a", f"127.0.0.1:{other.getsockname()[1]}").serve(Sample())
    first = real("a", f"unix:{tmp_path}/a.sock")
    await first.serve(Sample())
    with pytest.raises(AddressInUse):
        await real("b", f"unix:{tmp_path}/a.sock").serve(Sample())
    await first.close()
    assert not (tmp_path / "a.sock").exists()


async def test_a_socket_that_a_dead_process_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    b = real("b", f"unix:{path}")
    assert await b.serve(Sample()) == f"unix:{path}"
    assert path.stat().st_mode & 0o777 == 0o600
    await b.close()


@pytest.mark.parametrize("listen", ["192.0.2.77:0", "no-such-host.invalid:0", "unix:/nowhere/at/all.sock"])
async def test_what_cannot_be_listened_on_is_told_so(listen: str) -> None:
    with pytest.raises(BadAddress):
        await real("a", listen).serve(Sample())


async def test_an_advertised_address_that_leads_elsewhere_is_found_at_start() -> None:
    other = real("other")
    elsewhere = await other.serve(Sample())
    with pytest.raises(Unreachable, match=r"found other; give the address .*--advertise"):
        await real("a", advertise=elsewhere).serve(Sample())
    with socket.create_server(("127.0.0.1", 0)) as probe:
        free = probe.getsockname()[1]
    with pytest.raises(Unreachable, match=r"nobody answers at [^;]*; give the address"):  # not: try again
        await real("a", advertise=f"127.0.0.1:{free}").serve(Sample())
    with pytest.raises(BadAddress, match="--advertise"):
        await real("a", advertise="0.0.0.0:7400").serve(Sample())
    await other.close()


POD = "wakeful-0.wakeful-nodes.shop.svc"


def names(monkeypatch: pytest.MonkeyPatch, *, known_after: int | None) -> list[str]:
    """A resolver that knows the pod's name only when it has been asked so often; who was asked for."""
    resolve, asked = socket.getaddrinfo, list[str]()

    def getaddrinfo(host: Any, *args: Any, **options: Any) -> Any:
        if host != POD:
            return resolve(host, *args, **options)
        asked.append(host)
        if known_after is None or len(asked) <= known_after:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve("127.0.0.1", *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return asked


def port_that_is_free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


async def test_a_name_that_is_known_a_little_later_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A pod of a StatefulSet gets its name in DNS only after it was started."""
    asked, port = names(monkeypatch, known_after=3), port_that_is_free()
    monkeypatch.setattr("wakeful.transport.tcp.NAME_AGAIN_S", 0.0)
    a = real("a", f"127.0.0.1:{port}", advertise=f"{POD}:{port}")
    assert await a.serve(Sample()) == f"tcp:{POD}:{port}"
    await a.close()
    assert len(asked) == 4
    [said] = [record for record in caplog.records if getattr(record, "code", "") == "link.name"]
    assert POD in said.getMessage()


async def test_a_name_that_stays_unknown_ends_the_start_after_a_minute_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names(monkeypatch, known_after=None)
    warp = Timewarp(0)
    warp.install()
    try:
        began = warp.now()
        with pytest.raises(Unreachable, match=rf"the name {POD} has no address here.*DNS.*--advertise"):
            await real("a", advertise=f"{POD}:7400").serve(Sample())
        assert 60_000 <= warp.now() - began <= 64_000
    finally:
        warp.remove()


async def test_listening_everywhere_gives_others_an_address_they_can_dial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "derive", lambda address: address)
    monkeypatch.setattr("wakeful.transport.tcp.derive", lambda address: address._replace(host="127.0.0.1"))
    b = real("b", "0.0.0.0:0")
    address = parse(await b.serve(Sample()))
    assert address.host == "127.0.0.1"
    await b.close()


def test_a_machine_without_an_address_must_be_given_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Alone(socket.socket):
        def connect(self, address: Any) -> None:
            raise OSError("no route")

    monkeypatch.setattr(socket, "socket", Alone)
    with pytest.raises(BadAddress, match=r"address\.advertise"):
        addresses.derive(parse("0.0.0.0:7400"))


async def test_nobody_there_is_a_link_that_was_never_sent_on(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        free = probe.getsockname()[1]
    for address in (f"127.0.0.1:{free}", f"unix:{tmp_path}/none.sock", "no-such-host.invalid:1"):
        with pytest.raises(LinkLost, match=r"link\.(connect|elsewhere)") as caught:
            await real("a").connect(address)
        assert not caught.value.was_sent


# TLS


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two authorities, each with a certificate."""
    if shutil.which("openssl") is None:
        pytest.skip("the openssl program makes the certificates of this test")
    folder = tmp_path_factory.mktemp("tls")
    for name in ("ours", "theirs"):
        new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        _openssl(
            folder, "req", "-x509", *new, "-keyout", f"{name}.ca.key", "-out", f"{name}.ca", "-subj", f"/CN={name}"
        )
        _openssl(folder, "req", *new, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", "/CN=node")
        sign = ["-CA", f"{name}.ca", "-CAkey", f"{name}.ca.key", "-CAcreateserial", "-days", "2"]
        _openssl(folder, "x509", "-req", "-in", f"{name}.csr", *sign, "-out", f"{name}.crt")
    return folder


def _openssl(folder: Path, *args: str) -> None:
    subprocess.run(["openssl", *args], cwd=folder, check=True, capture_output=True, timeout=30)


def tls_of(folder: Path, name: str, ca: str = "ours") -> Tls:
    return Tls(folder / f"{name}.crt", folder / f"{name}.key", folder / f"{ca}.ca")


async def test_links_work_over_tls(certificates: Path) -> None:
    tls = tls_of(certificates, "ours")
    a, b = real("a", tls=tls), real("b", tls=tls)
    link = await a.connect(await b.serve(Sample()), expect_node="b")
    assert link._wire._transport.get_extra_info("ssl_object").version() == "TLSv1.3"  # type: ignore[attr-defined]
    large = bytes(3_000_000)
    replies = await asyncio.gather(*[link.ask(a_call("echo", large), timeout_ms=9_000) for _ in range(3)])
    assert [reply.answer for reply in replies] == [large] * 3
    await a.close()
    await b.close()


@pytest.mark.parametrize(("name", "ca"), [("theirs", "ours"), ("ours", "theirs"), ("theirs", "theirs"), ("", "")])
async def test_a_certificate_of_another_authority_gets_no_link(certificates: Path, name: str, ca: str) -> None:
    b = real("b", tls=tls_of(certificates, "ours"))
    handler = Sample()
    address = await b.serve(handler)
    a = real("a", tls=tls_of(certificates, name, ca) if name else None)
    # The end that dials is told by its own check, or only hung up on when it is the other that does not trust it.
    kind = WrongCertificate if ca == "theirs" else LinkLost
    with pytest.raises(kind, match=r"certificate|nobody answers"):
        await a.connect(address)
    assert handler.calls == []
    await b.close()


async def test_a_node_whose_own_certificate_its_authority_did_not_sign_does_not_start(certificates: Path) -> None:
    with pytest.raises(WrongCertificate):
        await real("b", tls=tls_of(certificates, "ours", "theirs")).serve(Sample())


def test_files_that_cannot_be_used_are_named(certificates: Path, tmp_path: Path) -> None:
    (tmp_path / "junk").write_text("junk")
    ours = tls_of(certificates, "ours")
    for bad, named in (
        (ours._replace(cert=tmp_path / "none"), "none"),
        (ours._replace(key=certificates / "theirs.key"), "theirs.key"),
        (ours._replace(cert=tmp_path / "junk"), "junk"),
        (ours._replace(ca=tmp_path / "junk"), "junk"),
    ):
        with pytest.raises(WrongCertificate, match=named):
            real("a", tls=bad)
