"""The chart's part for the join of labels."""

import pytest

from tests.charts.test_chart import Manifest, by_key, refusal, rendered, without_marks_of_the_installer
from tests.support.installation import kustomized

ON = ("labels.enabled=true", "labels.namespaces={ml}")


def plainly(manifest: Manifest) -> Manifest:
    fresh = without_marks_of_the_installer(manifest)
    if fresh["kind"] == "StatefulSet":
        fresh["spec"]["template"]["spec"]["containers"][0].pop("imagePullPolicy", None)
    return fresh


def test_it_is_what_its_kustomization_installs_in_each_namespace() -> None:
    default = rendered()
    added = {key: plainly(manifest) for key, manifest in rendered(*ON).items() if key not in default}
    assert added == {key: plainly(manifest) for key, manifest in by_key(kustomized("manifests/labels")).items()}
    two = rendered("labels.enabled=true", "labels.namespaces={ml,vision}")
    assert {key.replace("/vision/", "/ml/") for key in two if "/vision/" in key} == added.keys()


def test_several_replicas_take_their_database_from_the_secret() -> None:
    more = ("labels.replicas=3", "labels.databaseKey=database", "labels.storage.className=fast")
    spec = rendered(*ON, *more)["StatefulSet/ml/davylamp-labels"]["spec"]
    assert spec["replicas"] == 3
    (container,) = spec["template"]["spec"]["containers"]
    secret = {"secretKeyRef": {"name": "davylamp-labels", "key": "database"}}
    assert container["env"][0] == {"name": "DAVYLAMP_LABELS_DATABASE", "valueFrom": secret}
    assert spec["volumeClaimTemplates"][0]["spec"]["storageClassName"] == "fast"


def test_it_takes_what_clusters_need() -> None:
    more = ("labels.extraEnv[0].name=DAVYLAMP_LABELS_WAIT", "labels.extraEnv[0].value=2h", "image.tag=1.2.3")
    found = rendered(*ON, *more, "labels.storage.size=1Gi", "networkPolicy.enabled=false")
    spec = found["StatefulSet/ml/davylamp-labels"]["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    assert container["image"] == "davylamp:1.2.3"
    assert container["env"][-1] == {"name": "DAVYLAMP_LABELS_WAIT", "value": "2h"}
    assert spec["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] == "1Gi"
    assert "NetworkPolicy/ml/davylamp-labels" not in found


@pytest.mark.parametrize(
    "sets",
    [
        ("labels.enabled=true",),
        (*ON, "labels.replicas=2"),
        (*ON, "labels.replicas=0"),
        (*ON, "labels.storage.size=much"),
        (*ON, "labels.databaseKey=a b"),
    ],
)
def test_a_wrong_value_is_refused_before_anything_is_installed(sets: tuple[str, ...]) -> None:
    assert "labels" in refusal(*sets)
