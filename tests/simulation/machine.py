"""Everything that can happen to a rollout, in any order, with the invariants checked at each decision and write."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from davylamp.core.model import NONE, Phase
from davylamp.core.world import RouteView
from davylamp.routers.marks import read_marks
from tests.simulation.cluster import Cluster, Stored, edited, original_route, unmarked
from tests.simulation.settings import PLANS, Metrics
from tests.simulation.shell import Fate, Shell, Steps
from tests.simulation.watch import Violation, Watch, must, weights_of

#: Looks within which a world that stands still must have come to rest.
SETTLED_AFTER: Final = 60
#: Looks without a write after which it counts as at rest; together they are longer than the patience with missing data.
QUIET: Final = 6
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_GOOD: Final = (Metrics.PROVEN, Metrics.PROVEN, Metrics.PROVEN, Metrics.INCONCLUSIVE)
_fates = st.lists(st.sampled_from([Fate.ANSWERED, *Fate]), max_size=4)
_operators = st.sampled_from([0, 0, 0, 1])


class World(RuleBasedStateMachine):
    """Two operators, an API server, a gateway, people, and bad luck."""

    make_shell: Callable[[str, Cluster, Watch], Shell] = Shell

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.watch = Watch(self.cluster)
        self.shells = [self.make_shell(name, self.cluster, self.watch) for name in ("a", "b")]
        self.flying: list[Steps | None] = [None, None]
        self.routes = 1
        self.objects = 1
        self.elect(0)

    # Operators.

    @initialize(looks=st.integers(0, 12))
    def begin(self, looks: int) -> None:
        """Let a rollout come to any point by itself."""
        self.all_goes_well(looks, Metrics.PROVEN)

    @rule(looks=st.integers(1, 4), metrics=st.sampled_from(_GOOD))
    def all_goes_well(self, looks: int, metrics: Metrics) -> None:
        """Metrics are good, the gateway follows, and the leader looks on time."""
        self.cluster.metrics = metrics
        for _ in range(looks):
            self._pass(10)
            self.cluster.accept_route()
            self._look(self._leader())

    @rule(who=_operators, fates=_fates, stale=st.booleans())
    def look(self, who: int, fates: list[Fate], stale: bool) -> None:
        """One operator looks, at its time or by a hint; its calls may fail or lose their answers."""
        self._look(who, fates, stale=stale)

    @rule(who=_operators, calls=st.integers(0, 3), stale=st.booleans())
    def stop_between_two_calls(self, who: int, calls: int, stale: bool) -> None:
        """An operator is suspended in the middle of a look; the look goes on later, or never."""
        if self.flying[who] is not None:
            return
        steps = self.shells[who].look(stale=stale)
        if self._advance(steps, [Fate.ANSWERED] * calls, finish=False):
            self.flying[who] = steps

    @precondition(lambda self: any(self.flying))
    @rule(who=_operators, fates=_fates)
    def go_on(self, who: int, fates: list[Fate]) -> None:
        """A suspended operator wakes up, and writes what it had decided long ago."""
        steps = self.flying[who]
        if steps is not None:
            self.flying[who] = None
            self._advance(steps, fates)

    @rule(who=_operators)
    def crash(self, who: int) -> None:
        """A process ends, perhaps between two writes, and begins anew."""
        self.flying[who] = None
        self.shells[who].restart()

    @rule(who=_operators, told=st.booleans())
    def elect(self, who: int, told: bool = True) -> None:
        """Another leader is elected; the former one may not have noticed."""
        shell, other = self.shells[who], self.shells[1 - who]
        self.cluster.leader_epoch += 1
        self.flying[who] = None
        shell.session, shell.leads, shell.epoch = None, True, self.cluster.leader_epoch
        if told:
            other.leads, other.session = False, None

    # Time.

    @rule(seconds=st.sampled_from([1, 10, 40, 70, 400]))
    def time_passes(self, seconds: int) -> None:
        """Nothing happens for a while."""
        self._pass(seconds)

    @rule(seconds=st.sampled_from([-3600, -30, 30, 3600]), who=_operators)
    def clock_jumps_while_down(self, seconds: int, who: int) -> None:
        """The wall clock is set while an operator is down."""
        self.cluster.wall_offset += seconds
        self.crash(who)

    # Services, metrics and the gateway.

    @rule()
    def gateway_accepts(self) -> None:
        """The gateway takes the route's present generation."""
        self.cluster.accept_route()

    @rule(metrics=st.sampled_from(Metrics))
    def metrics_say(self, metrics: Metrics) -> None:
        """The gates say something else."""
        self.cluster.metrics = metrics

    @rule(metrics=st.sampled_from(Metrics), looks=st.integers(1, 4))
    def metrics_stay(self, metrics: Metrics, looks: int) -> None:
        """The gates say something else, and the leader sees it for some looks."""
        self.cluster.metrics = metrics
        self._leader_looks(looks)

    @rule(baseline=st.integers(0, 1), candidate=st.integers(0, 1), looks=st.integers(0, 2))
    def endpoints_change(self, baseline: int, candidate: int, looks: int = 0) -> None:
        """Pods come and go, and the leader may see it at once."""
        self.cluster.baseline_ready, self.cluster.candidate_ready = baseline, candidate
        self._leader_looks(looks)

    @rule()
    def endpoints_recover(self) -> None:
        """All pods are ready."""
        self.cluster.baseline_ready = self.cluster.candidate_ready = self.cluster.comparator_ready = 2

    @rule(looks=st.integers(0, 2))
    def comparator_goes(self, looks: int) -> None:
        """The comparator's pods are gone."""
        self.cluster.comparator_ready = 0
        self._leader_looks(looks)

    # People and other controllers.

    @precondition(lambda self: self.cluster.route is not None)
    @rule(percent=st.sampled_from([0, 3, 5, 17, 40, 80, 100]), times=st.sampled_from([1, 1, 1, 5]))
    def weights_edited(self, percent: int, times: int) -> None:
        """Somebody sets the weights by hand, perhaps again whenever they were put right."""
        self._edit_weights(percent)
        for _ in range(times - 1):
            self._pass(70)
            self._look(self._leader())
            self._edit_weights(percent)

    def _edit_weights(self, percent: int) -> None:
        route = self.cluster.route
        refs = route["spec"]["rules"][0]["backendRefs"] if route else []
        if route is None or len(refs) != 2 or {ref["name"] for ref in refs} <= {"credit-fp32"}:
            return
        shares = {True: 100 - percent, False: percent}
        new = [{**ref, "weight": shares[ref["name"] == "credit-fp32"]} for ref in refs]
        asked = read_marks(route).asked
        self.cluster.place_route(edited(route, new))
        self.watch.person_changed_route(lowers=asked is not None and percent < asked.percent)

    @precondition(lambda self: self.cluster.route is not None)
    @rule()
    def marks_stripped(self) -> None:
        """Somebody applies the route without its annotations."""
        if self.cluster.route is not None:
            self.cluster.place_route(unmarked(self.cluster.route))
            self.watch.person_changed_route()

    @precondition(lambda self: self.cluster.route is not None)
    @rule(name=st.sampled_from(["credit-fp32", "credit-int8"]))
    def route_left_to_one(self, name: str) -> None:
        """Somebody leaves the shared rule to one backend alone."""
        if self.cluster.route is not None:
            asked = read_marks(self.cluster.route).asked
            self.cluster.place_route(edited(self.cluster.route, [{"name": name, "port": 8080}]))
            self.watch.person_changed_route(lowers=name == "credit-fp32" and asked not in {None, NONE})

    @precondition(lambda self: self.cluster.route is not None)
    @rule()
    def filters_reset(self) -> None:
        """Somebody applies the rule with the filters that the user once wrote, so that a mirror is gone."""
        route = self.cluster.route
        if route is not None:
            own = original_route("")["spec"]["rules"][0]["filters"]
            first, *others = route["spec"]["rules"]
            self.cluster.place_route(
                {**route, "spec": {**route["spec"], "rules": [{**first, "filters": own}, *others]}}
            )
            self.watch.edited = True

    @precondition(lambda self: self.cluster.route is not None)
    @rule()
    def route_annotated(self) -> None:
        """Somebody changes a part of the route that is not Davylamp's."""
        route = self.cluster.route
        if route is not None:
            self.cluster.place_route(
                {**route, "spec": {**route["spec"], "hostnames": ["credit.example", "more.example"]}}
            )
            self.watch.edited = True

    @rule(back=st.booleans())
    def route_deleted(self, back: bool) -> None:
        """Somebody deletes the route, and perhaps makes it anew; or makes anew what was deleted before."""
        gone = self.cluster.route is None
        self.cluster.drop_route()
        if back or gone:
            self._make_route_anew()

    def _make_route_anew(self) -> None:
        self.routes += 1
        self.cluster.place_route(original_route(f"route-{self.routes}"))
        self.watch.person_changed_route()

    @rule(age=st.integers(1, 7))
    def route_from_backup(self, age: int) -> None:
        """Somebody puts an older version of the route back, marks included."""
        past = self.cluster.past_routes
        old = past[max(0, len(past) - 1 - age)]
        route = self.cluster.route or old
        self.cluster.place_route({**old, "metadata": {**old["metadata"], "uid": route["metadata"]["uid"]}})
        self.watch.person_changed_route()

    @rule(plan=st.integers(0, len(PLANS) - 1), paused=st.sampled_from([False, False, True]), looks=st.integers(0, 6))
    def spec_changes(self, plan: int, paused: bool, looks: int) -> None:
        """Another spec is applied in mid-rollout."""
        if self.cluster.rollout is not None and not self.cluster.rollout.deleting:
            self.cluster.change(plan=replace(PLANS[plan], paused=paused))
            self.watch.lowered = None
            self.all_goes_well(looks, Metrics.PROVEN)

    @precondition(lambda self: self.cluster.rollout is not None and self.cluster.rollout.plan.paused)
    @rule()
    def go_on_again(self) -> None:
        """A person takes spec.paused back."""
        if self.cluster.rollout is not None:
            self.cluster.change(plan=replace(self.cluster.rollout.plan, paused=False))

    @rule(taken=st.sampled_from([True, False, False]))
    def rival(self, taken: bool) -> None:
        """An older rollout claims the same route, or lets it go."""
        self.cluster.taken = taken

    @rule(plan=st.integers(0, len(PLANS) - 1), force=st.sampled_from([True, False, False]))
    def delete(self, plan: int, force: bool) -> None:
        """A person deletes the object, perhaps by force, and creates it anew under the same name once it is gone."""
        if self.cluster.rollout is not None and not force:
            self.cluster.change(deleting=True)
            return
        self.cluster.past_rollouts.clear()
        self.objects += 1
        # The first eight characters tell objects apart, as those of a real uid do.
        self.cluster.apply(f"rollout{_DIGITS[self.objects % len(_DIGITS)]}-0000", PLANS[plan])

    @precondition(lambda self: self.cluster.rollout is not None and self.cluster.rollout.status is not None)
    @rule(lost=st.booleans())
    def status_damaged(self, lost: bool) -> None:
        """A part of the status becomes unreadable, or all of it is lost."""
        rollout = self.cluster.rollout
        if rollout is None or rollout.status is None:
            return
        damaged = None if lost else Stored(rollout.status.progress, rollout.status.epoch, damaged=True)
        self.cluster.change(status=damaged)
        self.watch.status_damaged()

    # What must hold at any time.

    @invariant()
    def the_route_always_leads_somewhere(self) -> None:
        """I4: weights are never all zero."""
        if self.cluster.route is not None:
            weights_of(self.cluster.route)

    def teardown(self) -> None:
        """L1, L4: once the world stands still the rollout comes to rest; once all is well, it ends."""
        self.flying = [None, None]
        self.elect(0)
        self._settle()
        self._must_rest_safely()
        self._all_well()
        self._settle()
        self._must_have_ended()

    def _all_well(self) -> None:
        self.endpoints_recover()
        self.cluster.metrics = Metrics.PROVEN
        self.cluster.taken = False
        route = self.cluster.route
        if route is None or "credit-fp32" not in {ref["name"] for ref in route["spec"]["rules"][0]["backendRefs"]}:
            self._make_route_anew()
        if self.cluster.rollout is not None:
            self.cluster.change(plan=replace(self.cluster.rollout.plan, paused=False))
        self._pass(700)

    def _settle(self) -> None:
        """Let the leader look until it changes nothing any more."""
        quiet = 0
        for _ in range(SETTLED_AFTER):
            writes = self.cluster.writes
            self.cluster.accept_route()
            self._look(0)
            self._pass(30)
            quiet = quiet + 1 if writes == self.cluster.writes else 0
            if quiet > QUIET:
                return
        session = self.shells[0].session
        raise Violation("L1", f"writes do not stop: {session and session.progress}")

    def _must_rest_safely(self) -> None:
        rollout = self.cluster.rollout
        if rollout is None or rollout.status is None:
            return
        progress = rollout.status.progress
        view = self.cluster.look(rollout.plan.pair)
        if (
            progress.attempt is not None
            and progress.attempt.id in self.watch.rolled_back
            and isinstance(view, RouteView)
        ):
            must(view.attempt != progress.attempt.id or view.weight == NONE, "I2", f"at rest with {view}")
        must(not (rollout.deleting and not self.cluster.taken), "I14", "deleted, and not let go")

    def _must_have_ended(self) -> None:
        rollout = self.cluster.rollout
        if rollout is None or rollout.status is None:
            return
        progress = rollout.status.progress
        view = self.cluster.look(rollout.plan.pair)
        fine = progress.phase in {Phase.PROMOTED, Phase.ROLLED_BACK} or (
            # A person has the next move.
            progress.phase is Phase.HELD
            and progress.reason.value in {"RouteLowered", "RouteUnfit", "Quarantined", "MirrorRemoved"}
        )
        must(fine, "L1", f"all is well, and the rollout does not end: {progress} {view}")

    # Parts of rules.

    def _leader(self) -> int:
        return next((i for i, s in enumerate(self.shells) if s.leads and s.epoch == self.cluster.leader_epoch), 0)

    def _pass(self, seconds: int) -> None:
        self.cluster.time += seconds

    def _leader_looks(self, times: int) -> None:
        for _ in range(times):
            self._pass(10)
            self._look(self._leader())

    def _look(self, who: int, fates: list[Fate] | None = None, *, stale: bool = False) -> None:
        if self.flying[who] is None:
            self._advance(self.shells[who].look(stale=stale), fates or [])

    def _advance(self, steps: Steps, fates: list[Fate], *, finish: bool = True) -> bool:
        """Carry a look on, call by call, and return whether it is still under way."""
        left = list(fates)
        try:
            next(steps)
            while finish or left:
                steps.send(left.pop(0) if left else Fate.ANSWERED)
        except StopIteration:
            return False
        return True
