"""The lab: a real Kubernetes control plane, gateway and Prometheus on any Linux machine, without Docker."""

from e2e.lab.api import Api, ApiError
from e2e.lab.component import Component
from e2e.lab.failure import LabError
from e2e.lab.lab import Lab
from e2e.lab.parts import Part, Profile, answers

__all__ = ["Api", "ApiError", "Component", "Lab", "LabError", "Part", "Profile", "answers"]
