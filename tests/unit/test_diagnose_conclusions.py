"""What is made of what was seen: order, causes, facts of the host, tracebacks, text."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from diagnose_cases import cases as known_cases
from diagnose_cases import composed, hosts

from ascend_ocrvl.catalog.signature_schema import signatures
from ascend_ocrvl.diagnose import Diagnosis, LogFinding, diagnose_stream, diagnose_text
from ascend_ocrvl.diagnose.host import ARGUMENT, QUESTIONS
from ascend_ocrvl.diagnose.literals import literals, needle
from ascend_ocrvl.diagnose.show import lines
from ascend_ocrvl.host import facts as f
from ascend_ocrvl.host.facts import HostFacts

READY = "(APIServer pid=1) INFO:     Application startup complete.\n"
BANNER = "(APIServer pid=1) INFO 11-30 10:00:00 [api_server.py:1346] vLLM API server version 0.23.0\n"
LIBATB = "ImportError: libatb.so: cannot open shared object file: No such file or directory\n"
PORT = (
    "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): "
    "address already in use\n"
)
TIMEOUT = "(EngineCore pid=2) RuntimeError: ACL stream synchronize failed, error code:507014\n"
DCMI = "dcmi module initialize failed. ret is -8005\n"


def top(text: str, **known: object) -> LogFinding:
    found = diagnose_text(text, **known).findings  # type: ignore[arg-type]
    assert found
    return found[0]


# ---- order -------------------------------------------------------------------------------------------------


def test_a_chain_names_its_first_link() -> None:
    """Of a missing library, a plug-in, a device type and an exit, the library is named; the rest follow."""
    case = next(c for c in known_cases() if c.expect == "libatb-missing")
    diagnosis = diagnose_text(composed(case))
    assert diagnosis.findings[0].id == "libatb-missing"
    assert {x.follows_from for x in diagnosis.findings[1:]} == {"libatb-missing"}
    assert {x.severity for x in diagnosis.findings[1:]} == {"note"}
    assert diagnosis.top is diagnosis.findings[0]


def test_two_faults_that_do_not_explain_each_other_are_both_errors() -> None:
    """Independent faults stay errors, in the order in which they came."""
    diagnosis = diagnose_text(LIBATB + PORT)
    assert [(x.id, x.severity) for x in diagnosis.findings] == [
        ("libatb-missing", "error"),
        ("api-port", "error"),
    ]


def test_the_fault_of_the_last_start_comes_first() -> None:
    """In a log of several starts, what stopped the last one is what the reader is after."""
    diagnosis = diagnose_text(BANNER + LIBATB + BANNER + PORT)
    assert [x.id for x in diagnosis.findings] == ["api-port", "libatb-missing"]


def test_a_fault_of_a_start_that_was_followed_by_a_good_one_is_past() -> None:
    """A start that failed before another one came up is no longer an error; a fault while serving is."""
    diagnosis = diagnose_text(BANNER + LIBATB + BANNER + READY)
    assert [(x.id, x.severity) for x in diagnosis.findings] == [("libatb-missing", "note")]
    assert "came up afterwards" in diagnosis.findings[0].title
    again = diagnose_text(BANNER + READY + TIMEOUT + BANNER + READY)
    assert [(x.id, x.severity) for x in again.findings] == [("aicore-timeout", "error")]


def test_another_container_that_is_ready_mends_nothing() -> None:
    """In one log of several containers, readiness of one says nothing about another."""
    log = "vlm-1  | " + LIBATB + "api-1  | INFO:     Application startup complete.\n"
    assert [(x.id, x.severity) for x in diagnose_text(log).findings] == [("libatb-missing", "error")]
    own = "vlm-1  | " + LIBATB + "vlm-1  | INFO:     Application startup complete.\n"
    assert [x.severity for x in diagnose_text(own).findings] == ["note"]


def test_warnings_come_behind_errors() -> None:
    """Severity counts more than place."""
    warning = (
        "[WARNING]The driver package may not be completely installed, which may cause function abnormal.\n"
    )
    assert [x.severity for x in diagnose_text(warning + LIBATB).findings] == ["error", "warning"]


# ---- several causes ----------------------------------------------------------------------------------------


def test_what_is_not_determined_is_said_to_be_so() -> None:
    """A text with several causes gives all of them, with what tells them apart, and chooses none."""
    finding = top(DCMI)
    assert not finding.determined
    assert finding.cause.startswith("Not determined.")
    assert finding.confidence == "low"
    assert len(finding.candidates) >= 6
    assert all(c.tell and c.standing == "possible" for c in finding.candidates)


@pytest.mark.parametrize(
    ("host", "cause"),
    [
        ("upgraded", "no-reboot"),
        ("other-kernel", "module"),
        ("outsider", "permission"),
        ("bare-root", "capability"),
        ("held", "held"),
        ("well", None),
    ],
)
def test_facts_of_the_host_settle_8005(host: str, cause: str | None) -> None:
    """A node of another uid is not an upgrade without reboot: the facts say which."""
    finding = top(DCMI, facts=hosts()[host])
    assert finding.cause_id == cause
    if cause:
        assert finding.candidates[0].because
        assert finding.candidates[0].cause == finding.cause
        assert finding.commands == finding.candidates[0].commands


def test_two_facts_that_speak_for_two_causes_settle_nothing() -> None:
    """When two causes are both borne out, both stay possible and what speaks for each is shown."""
    host = replace(hosts()["upgraded"], docker=hosts()["held"].docker)
    finding = top(DCMI, facts=host)
    assert finding.cause_id is None
    assert {c.id for c in finding.candidates if c.because and c.standing == "possible"} == {
        "no-reboot",
        "held",
    }


def test_a_fact_that_only_speaks_for_a_cause_does_not_settle_it() -> None:
    """A proxy that is set may be the cause or not: it is shown first, with what speaks for it."""
    finding = top("openai.APIConnectionError: Connection error.\n", facts=hosts()["proxy"])
    assert finding.cause_id is None
    assert finding.candidates[0].id == "proxy"
    assert "no_proxy" in finding.candidates[0].because
    assert any(
        "speaks for it" in x for x in lines(diagnose_text("httpx.ConnectError", facts=hosts()["proxy"]))
    )


def test_a_device_that_is_held_elsewhere_settles_nothing_while_others_are_free() -> None:
    """On a host with several chips another container may well hold one of them."""
    one = hosts()["held"]
    free = replace(one.device_nodes[0], path="/dev/davinci1")
    finding = top(DCMI, facts=replace(one, device_nodes=(*one.device_nodes, free)))
    assert finding.cause_id is None
    assert finding.candidates[0].id == "held"


def test_what_the_log_says_counts_more_than_the_host() -> None:
    """ret=4 in the log is a missing right, whatever else the host looks like now."""
    finding = top("DrvMngGetConsoleLogLevel failed. (ret=4)\n" + DCMI, facts=hosts()["upgraded"])
    assert finding.cause_id == "permission"


@pytest.mark.parametrize(
    ("text", "expected", "cause"),
    [
        (PORT, "api-port", None),
        ("DistNetworkError: The server socket has failed to listen on any local network address. useIpv6: "
         "false, code: -98, name: EADDRINUSE, message: address already in use. port: 29500\n",
         "rendezvous-port", None),
        ("host nic listen start failed, port[60000], return[11]\n", "hccl-port", None),
        ("listen on ip[192.2.2.1] and specific port[16666] fail.\n", "hccl-port", None),
        ("zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:29550')\n", "zmq-port", None),
        ("OSError: [Errno 98] Address already in use\n", "port-taken", None),
        ("  File \"a.py\", line 1, in create_server_socket\nOSError: [Errno 98] Address already in use\n",
         "port-taken", "api"),
        ("  File \"a.py\", line 1, in init_process_group\nOSError: [Errno 98] Address already in use\n",
         "port-taken", "rendezvous"),
    ],
)  # fmt: skip
def test_a_taken_port_is_the_right_one(text: str, expected: str, cause: str | None) -> None:
    """A rendezvous port or a port of HCCL is not --port; what the text does not say is not guessed."""
    finding = top(text)
    assert (finding.id, finding.cause_id) == (expected, cause)
    if expected in ("rendezvous-port", "hccl-port"):
        assert "--port does not change it" in finding.cause
        assert not any("--port" in command for command in finding.commands)


def test_an_unknown_target_of_triton_is_two_faults() -> None:
    """On a 310P triton must go; an A2 whose name triton does not know needs another triton."""
    message = "bishengir-compile: for the --target option: Cannot find option named '{}'!\n"
    old, new = top(message.format("Ascend310P3")), top(message.format("Ascend910B4-1"))
    assert (old.id, new.id) == ("triton-on-310p", "triton-target-unknown")
    assert not any("install triton" in command for command in old.commands)
    assert any("pip install triton-ascend" in command for command in new.commands)


def test_product_and_release_exclude_what_cannot_be() -> None:
    """A failure of the 310P is not found on an A2; an unknown key is fatal from 0.27.1rc1 on only."""
    rotary = "NPU function error: call aclnnApplyRotaryPosEmbV2 failed, error code is 161001\n"
    assert top(rotary, product="310p").id == "rotary-310p"
    assert top(rotary).id == "rotary-310p"
    assert top(rotary, product="a2").id == "acl-161001"
    key = "ValidationError: 1 validation error for AscendConfig\nrefesh\n  Unexpected keyword argument\n"
    assert top(key, release="v0.30.0rc2").id == "additional-config-key"
    assert "refesh" in top(key, release="v0.30.0rc2").title
    assert diagnose_text(key, release="v0.23.0").findings == ()


# ---- codes and tracebacks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RuntimeError: ACL stream synchronize failed, error code:507035", "acl-507035"),
        ("NPU function error: aclrtFoo, error code is 599999", "acl-599999"),
        (
            "OSError: (External) ACL error, the error code is : 500002. (at npu_op_runner.cc:627)",
            "acl-500002",
        ),
        ("HCCL function error: HcclAllReduce(x), error code is 9", "hccl-9"),
        ("npu set mode failed. ret is -8013", "dcmi-8013"),
        ("EE9999: [PID: 7] 2026-01-01-10:00:00.1 failed inside", "cann-EE9999"),
        ("RuntimeError: CUDA error: device-side assert triggered", "cuda-device-side assert triggered"),
    ],
)
def test_a_bare_code_falls_back_on_the_tables(text: str, expected: str) -> None:
    """Where no failure fits, the table says what the code means, names its source and determines nothing."""
    finding = top(text)
    assert finding.id == expected
    assert not finding.determined
    assert finding.sources
    assert finding.remedy


def test_a_code_that_a_failure_accounts_for_is_not_told_twice() -> None:
    """The code beside a known failure, and the code it stands for elsewhere, give no finding of their own."""
    text = TIMEOUT + "x\n" * 20000 + "wait failed, runtime result = 507014\n"
    assert [x.id for x in diagnose_text(text).findings] == ["aicore-timeout"]


def test_codes_of_tables_are_unique() -> None:
    """No table lists a code twice, and every code of a table has a meaning."""
    for table in signatures().tables:
        codes = [c.code for c in table.codes]
        assert len(codes) == len(set(codes))
        assert all(c.meaning for c in table.codes)


TRACEBACK = """\
Traceback (most recent call last):
  File "/usr/lib/python3.11/site-packages/vllm/engine.py", line 10, in step
    self.run()
    ^^^^^^^^^^
  File "/usr/lib/python3.11/site-packages/vllm/model.py", line 77, in run
    raise KeyError(name)
KeyError: 'visual.patch'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/app/main.py", line 3, in <module>
    main()
WrapperError: it went wrong
  second line of the message
"""


def test_an_unknown_traceback_is_cut_down_to_what_is_asked_for() -> None:
    """The chain from the first exception on, where it was raised, and what was said; paths are short."""
    finding = top(TRACEBACK)
    assert finding.id == "unknown-traceback"
    assert finding.severity == "error"
    assert finding.evidence[0].line == 7
    assert finding.detail[:3] == (
        "  at vllm/engine.py:10 in step: self.run()",
        "  at vllm/model.py:77 in run: raise KeyError(name)",
        "KeyError: 'visual.patch'",
    )
    assert "WrapperError: it went wrong" in finding.detail


def test_equal_tracebacks_are_told_once() -> None:
    """The same traceback again, with other numbers, is counted."""
    finding = top(TRACEBACK + TRACEBACK.replace("line 77", "line 78") * 3)
    assert finding.count == 4
    assert len(diagnose_text(TRACEBACK * 4).findings) == 1


@pytest.mark.parametrize(
    "last", ["KeyboardInterrupt", "asyncio.exceptions.CancelledError: x", "SystemExit: 0"]
)
def test_an_ordinary_end_is_no_finding(last: str) -> None:
    """Ctrl-C and a cancelled task leave tracebacks that say nothing."""
    text = TRACEBACK.split("KeyError: ", maxsplit=1)[0] + last + "\n"
    assert diagnose_text(text).findings == ()


def test_a_traceback_in_a_warning_is_a_note() -> None:
    """What a program logs as a warning and survives is no error."""
    text = "".join(f"WARNING 11-30 10:00:00 [a.py:1] {line}" for line in TRACEBACK.splitlines(keepends=True))
    assert [x.severity for x in diagnose_text(text).findings] == ["note"]


def test_unknown_error_lines_are_a_note() -> None:
    """Lines of level ERROR that nothing fits are kept for the reader, once each, without an alarm."""
    text = "".join(f"ERROR 11-30 10:00:00 [a.py:1] the frob {i} is out of tune\n" for i in range(500))
    finding = top(text)
    assert (finding.id, finding.severity, finding.count) == ("unknown-error-lines", "note", 1)


# ---- questions to the host ---------------------------------------------------------------------------------


def test_questions_answer_unknown_for_a_host_of_which_nothing_is_known() -> None:
    """Without facts there is no yes and no no."""
    for question in QUESTIONS.values():
        assert question(HostFacts(), {"port": "8000", "lib": "libc_sec.so"}).holds is None


def test_questions_find_a_healthy_host_healthy() -> None:
    """On a host that is well no cause holds, and what was gone by is said."""
    for name, question in QUESTIONS.items():
        answer = question(hosts()["well"], {})
        assert answer.holds is not True, name
        assert answer.because or answer.holds is None


@pytest.mark.parametrize(
    ("name", "host", "groups"),
    [
        ("node_denied", hosts()["outsider"], {}),
        ("driver_newer_than_boot", hosts()["upgraded"], {}),
        ("module_missing", hosts()["other-kernel"], {}),
        ("held_by_container", hosts()["held"], {}),
        ("used_by_process", hosts()["busy"], {}),
        ("capability_dropped", hosts()["bare-root"], {}),
        ("manager_missing", HostFacts(complete=True), {}),
        ("no_card", HostFacts(pci=()), {}),
        ("driver_before", hosts()["old-driver"], {ARGUMENT: "25.0.rc1"}),
        ("library_missing",
         HostFacts(driver=f.DriverFacts(libraries=(f.PathFacts("/x/libc_sec.so", "missing"),))),
         {"lib": "libc_sec.so"}),
        ("unhealthy", HostFacts(npu_smi=f.NpuSmi(chips=(
            f.Chip(0, 0, 0, None, "310P3", "Alarm", *[None] * 10),))),
         {}),
        ("proxy_set", hosts()["proxy"], {}),
        ("listener", HostFacts(listeners=(f.Listener("0.0.0.0", 8000, "python3"),)), {"port": "8000"}),
    ],
)  # fmt: skip
def test_question_holds_for_its_host(name: str, host: HostFacts, groups: dict[str, str]) -> None:
    """Each question has a host for which it holds, and says what it went by."""
    answer = QUESTIONS[name](host, groups)
    assert answer.holds is True
    assert answer.because


def test_every_question_is_asked_by_some_signature() -> None:
    """No question is dead."""
    asked = {c.fact.partition(" ")[0] for x in signatures().failures for c in x.candidates if c.fact}
    assert asked == set(QUESTIONS)


# ---- words -------------------------------------------------------------------------------------------------


def test_words_of_a_log_are_quoted_in_commands() -> None:
    """What a log says goes into commands as one word of the shell, never as code."""
    text = "PermissionError: [Errno 13] Permission denied: '/root/.cache/$(touch x); rm -rf ~'\n"
    finding = top(text)
    assert finding.id == "cache-not-writable"
    assert finding.commands[0] == "ls -ld '/root/.cache/$(touch x); rm -rf ~'"


def test_a_bracket_without_its_word_is_left_out() -> None:
    """A title does not show empty brackets for what the line did not say."""
    assert top("RuntimeError: NPU out of memory").title == "The NPU's memory does not suffice"
    assert "32.00 GiB" in top("RuntimeError: NPU out of memory. Tried to allocate 32.00 GiB (NPU 0; x").title


def test_text_shows_cause_remedy_evidence_and_sources() -> None:
    """The text for people has all parts, and what follows is below its cause."""
    case = next(c for c in known_cases() if c.expect == "libatb-missing")
    text = "\n".join(lines(diagnose_text(composed(case), name="serve.log")))
    for part in ("error: NNAL", "cause ", "fix ", "$ source ", "serve.log:", "sources ", "then "):
        assert part in text
    assert text.index("libatb") < text.index("The engine did not start")
    assert "1 error in 1 input, and" in text


def test_text_of_an_open_question_lists_what_tells_the_causes_apart() -> None:
    """Undetermined causes are listed with their test; those that the host rules out are named as such."""
    text = "\n".join(lines(diagnose_text(DCMI, facts=hosts()["well"])))
    assert "either" in text
    assert "tell: " in text
    assert "not     permission" in text


def test_text_of_a_healthy_log_is_one_line() -> None:
    """Nothing found is said in one sentence."""
    assert lines(diagnose_text(BANNER + READY)) == ["Nothing that is known to be wrong in 1 input."]


def test_document_has_the_published_shape() -> None:
    """The JSON document has the schema and the keys that are documented."""
    document = json.loads(json.dumps(diagnose_text(LIBATB).to_dict()))
    assert document["schema"] == "ascend-ocrvl/diagnosis/1"
    finding = document["findings"][0]
    wanted = {"id", "severity", "title", "cause", "remedy", "commands", "confidence", "evidence", "sources"}
    assert wanted <= set(finding)
    assert set(finding["evidence"][0]) == {"file", "line", "text"}


def test_streams_and_texts_are_diagnosed_alike() -> None:
    """Chunks of text or of bytes, in any number, are one log."""
    case = next(c for c in known_cases() if c.expect == "hccl-port")
    text = composed(case)
    whole = diagnose_text(text, name="x")
    assert diagnose_stream(list(text), name="x") == whole
    assert diagnose_stream([text[:100].encode(), text[100:]], name="x") == whole
    assert isinstance(diagnose_stream([]), Diagnosis)


# ---- literals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "runs"),
    [
        ("abc", ["abc"]),
        (r"a\.b", ["a.b"]),
        ("ab?c", ["a", "c"]),
        ("ab*c", ["a", "c"]),
        ("ab+c", ["ab", "c"]),
        ("ab{0,2}c", ["a", "c"]),
        (r"a\d{3}b", ["a", "b"]),
        ("a(?P<x>bc)d", ["a", "d"]),
        ("(?:ab|c)de", ["de"]),
        ("(ab)?cd", ["cd"]),
        ("(ab)*?cd", ["cd"]),
        (r"a[b\]c]d", ["a", "d"]),
        ("[^]x]y", ["y"]),
        (r"x\(y\)", ["x(y)"]),
        (r"(?:[)(]|\))z", ["z"]),
        ("a(?!b)c", ["a", "c"]),
        (r"\bword\b", ["word"]),
        ("^x$", ["x"]),
    ],
)
def test_literals_of_a_pattern(pattern: str, runs: list[str]) -> None:
    """Only what no text that fits can lack is a literal."""
    assert literals(pattern) == runs
    assert needle(pattern) == max(runs, key=len)


@pytest.mark.parametrize("pattern", ["a|b", "abc|d(e)", "(a)|b"])
def test_alternatives_at_the_top_are_refused(pattern: str) -> None:
    """A pattern with a top-level alternative has no literal of its own."""
    with pytest.raises(ValueError, match="two patterns"):
        literals(pattern)
