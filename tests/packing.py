"""Things to pack: image archives as docker writes them, weights, wheels, and a docker that remembers."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import struct
import sys
import tarfile
from pathlib import Path
from typing import Any

from ascend_ocrvl import __version__

REFERENCE = "quay.io/ascend/vllm-ascend:v0.23.0-310p"


def config_of(
    arch: str = "arm64", soc: str = "ascend310p1", cann: str = "9.1.0", layer: bytes = b"layer"
) -> bytes:
    """The configuration of an image."""
    return json.dumps(
        {
            "architecture": arch,
            "os": "linux",
            "created": "2026-08-16T00:00:00Z",
            "config": {"Env": [f"SOC_VERSION={soc}", f"ASCEND_TOOLKIT_HOME=/usr/local/Ascend/cann-{cann}"]},
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
        }
    ).encode()


def two_images(first: str, second: str) -> bytes:
    """An archive with two images, as `docker save A B` writes it."""
    one, other = config_of(), config_of(soc="", layer=b"other")
    digests = [hashlib.sha256(raw).hexdigest() for raw in (one, other)]
    entries = [
        {"Config": f"{d}.json", "RepoTags": [n], "Layers": []}
        for d, n in zip(digests, (first, second), strict=True)
    ]
    files = {f"{digests[0]}.json": one, f"{digests[1]}.json": other}
    return _tar({**files, "manifest.json": json.dumps(entries).encode()})


def _tar(files: dict[str, bytes]) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return raw.getvalue()


def old_archive(*names: str, size: int = 100_000, **config: str) -> bytes:
    """An archive as docker before 25 writes it."""
    layer = hashlib.sha256(b"seed").digest() * (size // 32)
    raw = config_of(layer=layer, **config)
    digest = hashlib.sha256(raw).hexdigest()
    entry = {"Config": f"{digest}.json", "RepoTags": list(names) or None, "Layers": ["a/layer.tar"]}
    manifest = json.dumps([entry]).encode()
    return _tar({"a/layer.tar": layer, f"{digest}.json": raw, "manifest.json": manifest})


def oci_archive(*names: str, docker: bool = True, **config: str) -> bytes:
    """An archive as docker 25 and later writes it; without ``docker`` an OCI layout alone."""
    raw = config_of(**config)
    digest = hashlib.sha256(raw).hexdigest()
    manifest = json.dumps(
        {"schemaVersion": 2, "config": {"digest": f"sha256:{digest}"}, "layers": []}
    ).encode()
    outer = hashlib.sha256(manifest).hexdigest()
    files = {
        f"blobs/sha256/{digest}": raw,
        f"blobs/sha256/{outer}": manifest,
        "index.json": json.dumps({"schemaVersion": 2, "manifests": [{"digest": f"sha256:{outer}"}]}).encode(),
        "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
    }
    if docker:
        entry = {"Config": f"blobs/sha256/{digest}", "RepoTags": list(names), "Layers": []}
        files["manifest.json"] = json.dumps([entry]).encode()
    return _tar(files)


def write_archive(path: Path, *names: str, packed: bool = False, **config: Any) -> Path:
    """An archive file with one image."""
    raw = old_archive(*(names or (REFERENCE,)), **config)
    path.write_bytes(gzip.compress(raw) if packed else raw)
    return path


def write_weights(folder: Path, size: int = 4096) -> Path:
    """A folder that looks like the weights of a model, with what downloaders leave beside them."""
    (folder / ".cache").mkdir(parents=True)
    (folder / ".cache" / "state").write_text("x")
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").write_text('{"a": 1}')
    header = json.dumps({"t": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\x07" * size)
    (folder / "extra").mkdir()
    (folder / "extra" / "preprocessor_config.json").write_text("{}")
    return folder


def write_wheels(folder: Path, *more: str) -> Path:
    """A folder with our wheel, and others by name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (f"ascend_ocrvl-{__version__}-py3-none-any.whl", *more):
        (folder / name).write_bytes(name.encode())
    return folder


# A docker with one store below $FAKE_DOCKER: what was loaded is what `image inspect` knows.
DOCKER = r"""import json, os, sys
store = os.environ["FAKE_DOCKER"]
path = os.path.join(store, "images.json")
images = json.load(open(path)) if os.path.exists(path) else {}
with open(os.path.join(store, "calls"), "a") as f:
    f.write(" ".join(sys.argv[1:]) + "\n")
words = sys.argv[1:]
if words[:2] == ["image", "inspect"]:
    name = words[-1]
    if name not in images:
        sys.exit(f"Error: No such image: {name}")
    if "--format" in words:
        print(images[name]["Id"], "linux/" + images[name]["Architecture"], 100)
    else:
        print(json.dumps([images[name]]))
elif words[0] == "load":
    data = sys.stdin.buffer.read()
    open(os.path.join(store, "loading"), "wb").write(data)
    sys.path[:0] = [os.environ["FAKE_DOCKER_TESTS"]]
    import packing
    try:
        images.update(packing.loaded(data))
    except Exception as e:
        sys.exit(f"Error processing tar file(exit status 1): unexpected EOF")
    json.dump(images, open(path, "w"))
elif words[0] == "tag":
    images[words[2]] = images[words[1]]
    json.dump(images, open(path, "w"))
elif words[0] == "save":
    sys.stdout.buffer.write(open(os.path.join(store, "saved.tar"), "rb").read())
elif words[0] == "info":
    print(store)
else:
    sys.exit(f"docker: {words[0]!r} is not a docker command.")
"""


def loaded(data: bytes) -> dict[str, Any]:
    """What docker knows after `docker load`."""
    found = {}
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:*") as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar if m.isreg()}  # type: ignore[union-attr]
    for entry in json.loads(files["manifest.json"]):
        raw = files[entry["Config"]]
        config = json.loads(raw)
        for name in entry["RepoTags"]:
            found[name] = {
                "Id": "sha256:" + hashlib.sha256(raw).hexdigest(), "Os": "linux",
                "Architecture": config["architecture"], "Created": config["created"],
                "RootFS": {"Layers": config["rootfs"]["diff_ids"]}, "Config": config["config"],
                "RepoDigests": [name.rsplit(":", 1)[0] + "@sha256:" + "d" * 64],
            }  # fmt: skip
    return found


def fake_docker(folder: Path, monkeypatch: Any) -> Path:
    """Put the docker that remembers on the PATH; its store."""
    store = folder / "store"
    store.mkdir(parents=True)
    program = folder / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{DOCKER}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_DOCKER", str(store))
    monkeypatch.setenv("FAKE_DOCKER_TESTS", str(Path(__file__).parent))
    return store
