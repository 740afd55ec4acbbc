"""Whatever happens to a rollout, the invariants hold, and it comes to rest: four times 500 examples."""

from tests.simulation.machine import World
from tests.simulation.running import THOROUGH


class TestOneWorld(World.TestCase):
    """A quarter of the examples, so that test processes can share them."""

    settings = THOROUGH


class TestAnotherWorld(World.TestCase):
    """As `TestOneWorld`."""

    settings = THOROUGH


class TestAThirdWorld(World.TestCase):
    """As `TestOneWorld`."""

    settings = THOROUGH


class TestAFourthWorld(World.TestCase):
    """As `TestOneWorld`."""

    settings = THOROUGH
