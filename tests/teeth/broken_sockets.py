"""Sockets, broken on purpose: each of these is a mistake that somebody could make, applied while its block lasts."""

from typing import Any

from tests.teeth.broken import swapped
from wakeful.http import stops
from wakeful.runtime.turn import Turn
from wakeful.sockets import feature, gateways, records, socket
from wakeful.sockets.gateway import Gateway
from wakeful.sockets.gateways import Sweep
from wakeful.sockets.held import Held
from wakeful.sockets.outbox import Effect, Outgoing
from wakeful.sockets.register import Register
from wakeful.store import Range
from wakeful.values.commits import USER


def what_a_turn_sends_leaves_at_once() -> Any:
    """Not when the turn is on disk."""

    def make(put: Any) -> Any:
        def broken(turn: Turn, feature: Any, gateway: str, effect: Effect) -> None:
            feature.release([(gateway, effect)])

        return broken

    return swapped(socket, "put", make)


def a_rolled_back_transaction_keeps_its_sends() -> Any:
    """One list for the whole turn."""

    def make(put: Any) -> Any:
        def broken(turn: Turn, feature: Any, gateway: str, effect: Effect) -> None:
            for one in turn.then:
                if isinstance(one, Outgoing):
                    one.append((gateway, effect))
                    return
            put(turn, feature, gateway, effect)

        return broken

    return swapped(socket, "put", make)


def a_message_that_is_sent_again_runs_again() -> Any:
    """Nobody counts them."""

    def make(set_seen: Any) -> Any:
        def broken(turn: Turn, id: str, number: int) -> None: ...

        return broken

    return swapped(records, "set_seen", make)


def on_close_in_a_turn_of_its_own() -> Any:
    """The row stays until the object was told: it may be told twice."""

    def make(part: Any) -> Any:
        async def broken(turn: Turn, id: str, code: int, reason: str, *, was_clean: bool) -> None:
            await part(turn, id, code, reason, was_clean=was_clean)
            for slot in [slot for slot in turn.writes if slot[1].startswith(records.PREFIX)]:
                del turn.writes[slot]

        return broken

    return swapped(feature, "part", make)


def sockets_are_kept_in_memory_only() -> Any:
    """The gateway knows them anyway."""

    def make(save: Any) -> Any:
        def broken(turn: Turn, id: str, found: records.SocketRecord) -> None:
            records.table_of(turn.activation).known[id] = found

        return broken

    return swapped(records, "save", make)


def an_object_is_listed_after_it_has_sockets() -> Any:
    """It saves the client a wait."""

    def make(add: Any) -> Any:
        async def broken(self: Register, target: Any) -> None: ...

        return broken

    return swapped(Register, "add", make)


def nobody_looks_for_dead_gateways() -> Any:
    def make(look: Any) -> Any:
        def broken(self: Sweep) -> None: ...

        return broken

    return swapped(Sweep, "look", make)


def a_gateway_is_dead_when_the_owner_has_not_heard_of_it() -> Any:
    """By what the last round of membership saw, not by what the store says."""

    def make(dead: Any) -> Any:
        async def broken(self: Sweep) -> list[str]:
            node = self._node
            rows = await node.store.scan(gateways.ALL, USER, Range("gate/", "gate0"))
            found = [key.partition("/")[2] for key, _ in rows]
            old = sorted(node.membership.nodes)[:2]
            return [one for one in found if gateways.name_of(one) not in old and not self._is_ours(one)]

        return broken

    return swapped(Sweep, "_dead", make)


def a_gateway_that_was_buried_goes_on() -> Any:
    """It does not ask whether it is thought to be dead."""

    def make(doubt: Any) -> Any:
        def broken(self: Register, shards: Any) -> None: ...

        return broken

    return swapped(Register, "_doubt", make)


def batches_are_not_counted() -> Any:
    """What is sent again is taken again."""

    def make(take: Any) -> Any:
        def broken(self: Gateway, gateway: str, sender: str, number: int, batch: Any) -> bool:
            self._senders.clear()
            return bool(take(self, gateway, sender, number, batch))

        return broken

    return swapped(Gateway, "take", make)


def a_slow_client_may_be_as_slow_as_it_likes() -> Any:
    def make(push: Any) -> Any:
        def broken(self: Held, message: Any, most: int) -> None:
            push(self, message, 1 << 40)

        return broken

    return swapped(Held, "push", make)


def a_late_owner_is_believed() -> Any:
    """Sends come in the order of their arrival, whoever sent them."""

    def make(apply: Any) -> Any:
        def broken(self: Gateway, effect: Effect) -> None:
            for id in effect.ids:
                if id in self.sockets:
                    self.sockets[id].epoch = 0
            apply(self, effect)

        return broken

    return swapped(Gateway, "apply", make)


def a_closed_socket_hears_on() -> Any:
    """What the client said before it knew goes to the object all the same."""

    def make(load: Any) -> Any:
        async def broken(turn: Turn, id: str) -> Any:
            found = await load(turn, id)
            return None if found is None else effects_free(found)

        return broken

    return swapped(records, "load", make)


def nobody_listens_for_the_stop_of_a_server() -> Any:
    """Its lifespan says so, and it says that last."""
    return swapped(stops, "servers_of", lambda _: lambda loop: [])


def only_who_lasts_has_the_server_heard() -> Any:
    """As if calls were always over before a server cuts them."""
    return swapped(stops.Stops, "meet", lambda meet: lambda self: None)


def what_begins_in_a_stop_goes_on() -> Any:
    """A stream that was being admitted when the others were told."""
    return swapped(stops, "STOPPING_S", lambda _: 0.0)


def handlers_of_signals_stay() -> Any:
    """Ours are left where they are when nothing lasts any more."""
    return swapped(stops.Signals, "release", lambda _: lambda self: None)


def what_was_done_at_a_signal_is_not_done() -> Any:
    """Ours takes its place: the server never hears that it is to stop."""
    return swapped(stops.Chained, "__call__", lambda _: lambda self, number, frame: self._begin())


def effects_free(found: records.SocketRecord) -> records.SocketRecord:
    """The same socket, as if nobody had closed it."""
    return records.SocketRecord(found.gateway, found.seq, found.tags, found.attachment)
