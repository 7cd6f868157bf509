"""SSH against a real sshd on loopback."""

from __future__ import annotations

import getpass
import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sshd import Server, free_port, keygen, running_sshd

from ascend_ocrvl.errors import ExitStatus, RequestError, UnreachableError
from ascend_ocrvl.host.ssh import SshTarget, SshTransport
from ascend_ocrvl.secret import Secret


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """An sshd of this test alone."""
    with running_sshd(tmp_path) as running:
        yield running


def run(target: SshTarget, *argv: str, **options: object) -> object:
    with SshTransport(target) as host:
        return host.run(argv, **options)  # type: ignore[arg-type]


def test_a_command_gives_its_output_and_status(server: Server) -> None:
    """Both streams and the status come back, apart."""
    with SshTransport(server.target) as host:
        done = host.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (done.status, done.stdout, done.stderr) == (3, "out\n", "err\n")


@pytest.mark.parametrize("word", ["it's", "$HOME `id`", "a\nb", "ümläut 中文", '"; exit 9', "", "*"])
def test_words_arrive_as_they_were_given(server: Server, word: str) -> None:
    """No word of a command is read by a shell on the way."""
    with SshTransport(server.target) as host:
        assert host.run(["printf", "%s|", word, "end"]).stdout == f"{word}|end|"


def test_a_new_host_key_is_remembered_and_a_changed_one_refused(server: Server) -> None:
    """accept-new lets the first key in; another key for the same host is refused, with what to do."""
    run(server.target, "true")
    assert f"[127.0.0.1]:{server.port} ssh-ed25519" in server.known_hosts.read_text()
    keygen(server.folder / "other")
    other = (server.folder / "other.pub").read_text().split()[1]
    server.known_hosts.write_text(f"[127.0.0.1]:{server.port} ssh-ed25519 {other}\n")
    with pytest.raises(UnreachableError, match="another key") as caught:
        run(server.target, "true")
    assert f"ssh-keygen -R '[127.0.0.1]:{server.port}'" in caught.value.remedy
    assert caught.value.status == ExitStatus.UNREACHABLE


def test_strict_refuses_a_host_that_was_never_seen(server: Server) -> None:
    """With `strict`, an unknown host is not talked to, and nothing is written down."""
    with pytest.raises(UnreachableError, match="no known-hosts file") as caught:
        run(replace(server.target, host_keys="strict"), "true")
    assert "ssh-keyscan" in caught.value.remedy
    assert not server.known_hosts.exists()


def test_off_takes_any_key_by_choice(server: Server) -> None:
    """With `off`, even a changed key is taken: somebody asked for it."""
    keygen(server.folder / "other")
    other = (server.folder / "other.pub").read_text().split()[1]
    server.known_hosts.write_text(f"[127.0.0.1]:{server.port} ssh-ed25519 {other}\n")
    with SshTransport(replace(server.target, host_keys="off")) as host:
        assert host.run(["true"]).ok


def test_a_jump_host_is_checked_too(server: Server) -> None:
    """The way through a jump host works, and a changed key of the jump host is refused."""
    (server.folder / "ssh_config").write_text(
        f"Host inner\n HostName 127.0.0.1\n Port {server.port}\n"
        f" ProxyJump {getpass.getuser()}@127.0.0.1:{server.port}\n"
        f"Host *\n IdentityFile {server.folder}/user\n"
        f" UserKnownHostsFile {server.known_hosts}\n GlobalKnownHostsFile /dev/null\n"
    )
    target = replace(server.target, host="inner", port=None)
    with SshTransport(target) as host:
        assert host.run(["echo", "through"]).stdout == "through\n"
    keygen(server.folder / "other")
    other = (server.folder / "other.pub").read_text().split()[1]
    server.known_hosts.write_text(f"[127.0.0.1]:{server.port} ssh-ed25519 {other}\n")
    with pytest.raises(UnreachableError, match="another key"):
        run(target, "true")


def test_a_command_past_its_time_is_ended_on_the_host(server: Server) -> None:
    """A time-out gives status 124, and the command does not go on over there."""
    with SshTransport(server.target) as host:
        done = host.run(["sh", "-c", f"echo $$ > {server.folder}/pid-of-it; sleep 60"], timeout_s=1)
        pid = (server.folder / "pid-of-it").read_text().strip()
        assert done.status == 124
        assert not Path(f"/proc/{pid}").exists()


def test_a_host_that_dies_is_named(server: Server) -> None:
    """When the connection ends during a command, the error says so instead of status -1."""
    with SshTransport(server.target) as host, pytest.raises(UnreachableError, match="went away") as caught:
        host.run(["sh", "-c", "kill -9 $(ps -o ppid= -p $PPID) $PPID; sleep 5"])
    assert "what is done is not done twice" in caught.value.remedy


def test_megabytes_come_through_whole(server: Server) -> None:
    """Output of any size arrives, byte by byte the same."""
    with SshTransport(server.target) as host:
        assert host.run(["sh", "-c", "yes 0123456789 | head -n 1000000"]).stdout == "0123456789\n" * 1000000


def test_lines_are_handed_over_as_they_come(server: Server) -> None:
    """`on_line` sees every line of both streams."""
    seen: list[str] = []
    with SshTransport(server.target) as host:
        host.run(
            ["sh", "-c", "echo one; sleep 0.2; echo two >&2; sleep 0.2; printf three"], on_line=seen.append
        )
    assert seen == ["one", "two", "three"]


def test_stdin_reaches_the_command(server: Server) -> None:
    """A megabyte of stdin is read by the command."""
    text = "zeile\n" * 200_000
    with SshTransport(server.target) as host:
        assert host.run(["wc", "-c"], stdin=text).stdout.strip() == str(len(text))


def test_a_banner_of_the_shell_is_not_output(server: Server) -> None:
    """What ~/.bashrc prints before the command is left out."""
    authorized = (server.folder / "user.pub").read_text()
    (server.folder / "authorized").write_text(
        f'command="echo WELCOME; echo WARNING >&2; eval \\"$SSH_ORIGINAL_COMMAND\\"" {authorized}'
    )
    with SshTransport(server.target) as host:
        done = host.run(["echo", "mine"])
    assert (done.stdout, done.stderr) == ("mine\n", "")


def test_a_file_appears_whole_under_its_name(server: Server) -> None:
    """`put` copies bytes and mode, and leaves no partial file."""
    source = server.folder / "source"
    source.write_bytes(bytes(range(256)) * 1000)
    with SshTransport(server.target) as host:
        host.put(source, str(server.folder / "copy"), mode=0o600)
    assert (server.folder / "copy").read_bytes() == source.read_bytes()
    assert (server.folder / "copy").stat().st_mode & 0o777 == 0o600
    assert not (server.folder / "copy.part").exists()


def test_a_wrong_key_is_not_let_in(server: Server) -> None:
    """A key that the host does not know gives an error with the command that adds one."""
    keygen(server.folder / "stranger")
    target = replace(server.target, key=str(server.folder / "stranger"), password=Secret("wrong"))
    (server.folder / "authorized").write_text("")
    with pytest.raises(UnreachableError, match="not let in") as caught:
        run(target, "true")
    assert "ssh-copy-id" in caught.value.remedy
    assert "wrong" not in str(caught.value.to_dict())


def test_a_closed_port_and_an_unknown_name_are_told_apart() -> None:
    """Nothing listening and a name that does not resolve have their own remedies."""
    with pytest.raises(UnreachableError, match="nothing listens"):
        run(SshTarget("127.0.0.1", port=free_port(), user="root"), "true")
    with pytest.raises(UnreachableError, match="is not known"):
        run(SshTarget("no-such-host.invalid", user="root"), "true")


@pytest.mark.parametrize(
    ("text", "user", "host", "port"),
    [
        ("npu1", None, "npu1", None),
        ("root@npu1", "root", "npu1", None),
        ("a@b@10.0.0.5:2222", "a@b", "10.0.0.5", 2222),
        ("[fe80::1]:22", None, "fe80::1", 22),
        ("root@[::1]", "root", "::1", None),
        ("fe80::1", None, "fe80::1", None),
    ],
)
def test_targets_that_are_written_well(text: str, user: str | None, host: str, port: int | None) -> None:
    """USER@HOST:PORT is read, IPv6 included."""
    target = SshTarget.parse(text)
    assert (target.user, target.host, target.port) == (user, host, port)


@pytest.mark.parametrize(
    "text", ["", "@npu1", "npu1:", "npu1:ssh", "npu1:0", "npu1:70000", "a b", "[::1", "[::1]x"]
)
def test_targets_that_are_written_badly(text: str) -> None:
    """What is not a host is refused with the form that is wanted."""
    with pytest.raises(RequestError, match="is not a host") as caught:
        SshTarget.parse(text)
    assert "[USER@]HOST[:PORT]" in caught.value.wanted


def test_a_secret_does_not_show_itself() -> None:
    """A target prints its password as redacted."""
    assert "hunter2" not in repr(SshTarget("h", password=Secret("hunter2")))


def test_bytes_are_fed_as_they_are(server: Server) -> None:
    """`feed` passes any bytes in any chunks, and the command's answer comes back."""
    chunks = [bytes(range(256)) * n for n in (1, 0, 300, 7)] + [b"\xff\x00\n"]
    with SshTransport(server.target) as host:
        done = host.feed(["sh", "-c", "sha256sum; echo told >&2"], chunks)
    assert done.stdout.split()[0] == hashlib.sha256(b"".join(chunks)).hexdigest()
    assert (done.status, done.stderr) == (0, "told\n")


def test_what_the_feeder_raises_ends_the_command(server: Server) -> None:
    """When the chunks break off, the command ends without the rest, and the caller gets the very error."""

    def chunks() -> Iterator[bytes]:
        yield b"begun"
        raise LookupError("the source broke off")

    with SshTransport(server.target) as host:
        with pytest.raises(LookupError, match="broke off"):
            host.feed(["sh", "-c", f"cat > {server.folder}/got; echo whole >> {server.folder}/got"], chunks())
        assert host.run(["true"]).ok


def test_a_command_that_does_not_read_is_no_error_of_the_feeder(server: Server) -> None:
    """A command that ends without reading gives its own status."""
    endless = (b"\0" * 65536 for _ in range(10_000))
    with SshTransport(server.target) as host:
        assert host.feed(["sh", "-c", "echo no >&2; exit 4"], endless).status == 4
