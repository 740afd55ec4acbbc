"""The rights that the operator needs are the rights that its manifests give."""

import asyncio
from dataclasses import replace

from kubernetes.aio import config

from davylamp.runtime.kube import Allowance, Kube
from davylamp.runtime.rights import Right, missing, needed
from e2e.lab import Lab
from tests.davylamp.runtime.premises import SETTINGS


async def test_the_service_account_has_them(own_kube: Kube) -> None:
    assert await missing(own_kube, SETTINGS) == ()


async def test_the_service_account_has_them_for_a_list_of_namespaces(own_kube: Kube, lab_namespace: str) -> None:
    assert await missing(own_kube, replace(SETTINGS, watch_namespaces=(lab_namespace, "default"))) == ()


async def test_an_account_without_any_lacks_all_of_them(control_plane: Lab, lab_namespace: str) -> None:
    file = await asyncio.to_thread(control_plane.kubeconfig_for, lab_namespace, "default")
    kube = Kube(await config.new_client_from_config(str(file)), Allowance(200, 400), lambda _: None)
    assert await missing(kube, SETTINGS) == tuple(needed(SETTINGS))
    await kube.close()


def test_a_right_reads_as_a_person_would_say_it() -> None:
    assert str(Right("patch", "davylamp.dev", "modelrollouts/status", "")) == (
        "patch modelrollouts/status.davylamp.dev in the whole cluster"
    )
    assert str(Right("list", "", "services", "ml")) == "list services in namespace ml"
