"""The one table of checks: stable id, title, group, and the products that a check is for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ascend_ocrvl.catalog.schema import Product
from ascend_ocrvl.preflight.checks import (
    dcmi,
    devices,
    docker,
    driver,
    environment,
    hdk,
    identity,
    image,
    machine,
    npu,
    request,
    service,
)
from ascend_ocrvl.preflight.context import Context
from ascend_ocrvl.preflight.finding import Finding

Run = Callable[[Context], list[Finding] | Finding]

ALL = ("npu", "cpu", "cuda")  # kinds of products
NPU = ("npu",)

PRODUCT, HOST, CHIPS, DRIVER, DOCKER, IMAGE, REQUEST, SERVICE = (
    "product", "host", "npu", "driver", "docker", "image", "request", "service",
)  # fmt: skip


@dataclass(frozen=True)
class Check:
    """A named check. ``products`` are kinds (npu, cpu) or product ids (310p)."""

    id: str
    title: str
    group: str
    run: Run
    products: tuple[str, ...] = NPU

    def applies(self, product: Product | None) -> bool:
        """The check has something to say of the product; while none is known, every check may."""
        return product is None or product.kind in self.products or product.id in self.products


CHECKS: tuple[Check, ...] = (
    Check("product", "The host has the NPU that was asked for", PRODUCT, identity.product, ALL),
    Check("pci.count", "Every card on the bus has its device nodes", PRODUCT, identity.pci_count),
    Check("lspci", "A card or a SoC board, as planned", PRODUCT, identity.lspci, ("310p",)),
    Check("driver.install", "The driver is installed completely", DRIVER, driver.install),
    Check("driver.user", "The driver's account exists", DRIVER, driver.user),
    Check("driver.module", "The kernel module is loaded and fits the kernel", DRIVER, driver.module),
    Check("driver.reboot", "The host was rebooted after the driver was installed", DRIVER, driver.reboot),
    Check("driver.boot", "The driver has had time to start", DRIVER, driver.early_boot),
    Check("driver.path", "The driver's libraries are where they are mounted from", DRIVER, driver.path),
    Check("driver.dmesg", "The kernel's log has no complaint of the driver", DRIVER, driver.dmesg),
    Check("driver.version", "No trouble is reported with this driver", DRIVER, hdk.version),
    Check("driver.cann", "The driver fits the CANN of the image", DRIVER, hdk.cann),
    Check("firmware", "The firmware fits the driver", DRIVER, hdk.firmware),
    Check("device.nodes", "The device nodes are there", CHIPS, devices.nodes),
    Check("device.access", "The user may open the device nodes", CHIPS, devices.access),
    Check("npu.smi", "npu-smi is there and answers", CHIPS, npu.smi),
    Check("npu.dcmi", "npu-smi reaches the driver", CHIPS, dcmi.dcmi),
    Check("npu.health", "The chips are healthy", CHIPS, npu.health),
    Check("npu.memory", "The chips have free memory", CHIPS, npu.memory),
    Check("npu.busy", "Nobody else uses the chips", CHIPS, npu.busy),
    Check("docker.client", "docker is installed", DOCKER, docker.client),
    Check("docker.daemon", "The docker daemon answers", DOCKER, docker.daemon),
    Check("docker.access", "The user may use docker", DOCKER, docker.access),
    Check("docker.version", "docker is new enough", DOCKER, docker.version),
    Check("docker.runtime", "Devices are mapped in one way only", DOCKER, docker.runtime),
    Check("image.present", "The image is on the host", IMAGE, image.present),
    Check("image.arch", "The image is for this architecture", IMAGE, image.arch),
    Check("image.product", "The image was built for this chip", IMAGE, image.product),
    Check("image.cann", "The image has the CANN that the plan counts on", IMAGE, image.cann),
    Check("plan", "A plan can be made", REQUEST, request.plan, ALL),
    Check("release.product", "The release works on the product", REQUEST, request.release_product),
    Check("cann.graph", "Graph mode only where the image's CANN carries it", REQUEST, request.cann_graph),
    Check("cann.host", "No CANN of the host in the container", REQUEST, request.cann_host),
    Check("triton.absent", "No triton where the chip has none", REQUEST, request.triton_absent, ("310p",)),
    Check("dtype", "The chip has the number format", REQUEST, request.dtype),
    Check("context.length", "The context holds what clients send", REQUEST, request.context_length),
    Check("config.keys", "The release knows every additional_config key", REQUEST, request.config_keys),
    Check("tensor.parallel", "One chip per service", REQUEST, request.tensor_parallel),
    Check("env.visible-devices", "No variable renumbers the devices", REQUEST, environment.visible_devices),
    Check("env.conflicts", "No variable that the libraries refuse", REQUEST, environment.conflicts),
    Check("mounts.sources", "Everything that is mounted is there", SERVICE, service.mounts),
    Check("weights", "The weights are there", SERVICE, service.weights),
    Check("container.name", "The container names are free", SERVICE, service.container_name),
    Check("port.free", "The ports are free", SERVICE, service.port_free, ALL),
    Check("probe", "The probe saw everything", HOST, machine.probe_complete, ALL),
    Check("arch", "The processor architecture has images", HOST, machine.arch),
    Check("container.nested", "This is the host, not a container", HOST, machine.nested),
    Check("memory", "Enough main memory", HOST, machine.memory, ALL),
    Check("shm", "The shared memory fits", HOST, machine.shm),
    Check("disk.space", "Enough disk", HOST, machine.disk_space, ALL),
    Check("cpu.binding", "Enough CPUs for each NPU", HOST, machine.cpu_binding),
    Check("clock", "The clock is not behind", HOST, machine.clock),
    Check("glibc", "The image's C library is not older than the host's", HOST, machine.glibc),
    Check("selinux", "SELinux lets containers read the mounts", HOST, machine.selinux),
    Check("proxy.localhost", "Local requests do not go through a proxy", HOST, machine.proxy_localhost, ALL),
)  # fmt: skip
