"""Organisations far apart: what a round would take, from measured latencies and the measured work
of nodes and relay.

The simulation goes event by event. A node that has its neighbours' releases works, sends to each
neighbour, and goes on when their releases are there. Every message
passes the relay, which serves one after the other. `Distant` puts real delays between real nodes
and their relay, to check it.
"""

import asyncio
import heapq
import statistics
import threading
from itertools import pairwise

CITIES = (
    "Dallas",
    "Toronto",
    "Washington DC",
    "Frankfurt",
    "London",
    "Madrid",
    "Osaka",
    "Sydney",
    "Tokyo",
    "Sao Paulo",
)
# Round trips in milliseconds between data centres, means of 3 February to 3 March 2024, as IBM
# Cloud measured and published them (github.com/ibm-cloud-docs/vpc, network-latency.md); the
# diagonal is between two sites of one city.
ROUND_TRIPS = (
    (2, 34, 32, 123, 113, 118, 149, 185, 142, 144),
    (34, 2, 19, 92, 82, 107, 170, 215, 162, 130),
    (32, 19, 1, 98, 75, 87, 174, 215, 167, 119),
    (123, 92, 98, 1, 12, 29, 242, 260, 237, 196),
    (113, 82, 75, 12, 2, 26, 253, 272, 247, 186),
    (118, 107, 87, 29, 26, 1, 268, 281, 260, 205),
    (149, 170, 174, 245, 255, 268, 2, 124, 9, 293),
    (185, 215, 214, 260, 271, 285, 124, 2, 117, 329),
    (141, 164, 167, 237, 246, 259, 9, 117, 2, 286),
    (145, 128, 120, 196, 185, 206, 292, 326, 285, 2),
)
EUROPE = ("Frankfurt", "London", "Madrid")


def ways(cities, relay, n):
    """Seconds from each of ``n`` nodes, spread over the cities in turn, to the relay, one way."""
    to = ROUND_TRIPS[CITIES.index(relay)]
    return [to[CITIES.index(cities[i % len(cities)])] / 2e3 for i in range(n)]


def simulate(graph, way, *, node_work, relay_work, rounds):
    """Seconds of each round: of the median node (a list), and of the whole."""
    n, order = graph.n, iter(range(10**9))
    events, free = [], 0.0  # (time, order, what, sender, receiver, round); when the relay is free
    stands, sent = [0] * n, [False] * n
    here = [{} for _ in range(n)]
    ended = [[] for _ in range(n)]

    def put(at, *event):
        heapq.heappush(events, (at, next(order), *event))

    def go_on(i, now):
        """The next round, if nothing is missing."""
        t, degree = stands[i], len(graph.neighbours(i))
        waiting = t and here[i].get(t, 0) < degree
        if not waiting and not sent[i] and t < rounds:
            sent[i] = True
            put(now + node_work, "worked", i, i, t + 1)

    for i in range(n):
        go_on(i, 0.0)
    while events:
        now, _, what, sender, receiver, t = heapq.heappop(events)
        if what == "worked":
            stands[sender], sent[sender] = t, False
            ended[sender].append(now)
            for peer in graph.neighbours(sender) if t < rounds else ():
                put(now + way[sender], "relay", sender, peer, t)
            go_on(sender, now)
        elif what == "relay":
            free = max(now, free) + relay_work
            put(free + way[receiver], "release", sender, receiver, t)
        else:
            here[receiver][t] = here[receiver].get(t, 0) + 1
            go_on(receiver, now)
    gaps = [b - a for told in ended for a, b in pairwise(told[1:])]
    return statistics.median(gaps), max(told[-1] for told in ended)


class Distant:
    """Real delays: each node's connections to the relay pass a forwarder that holds every byte for
    ``way`` seconds, in both directions.
    """

    def __init__(self, relay, way):
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        listening = [self._listen(relay.host, relay.port, each) for each in way]
        self._ports = [
            asyncio.run_coroutine_threadsafe(each, self._loop).result() for each in listening
        ]

    def address(self, i):
        """Where node ``i`` reaches the relay."""
        return f"127.0.0.1:{self._ports[i]}"

    async def _listen(self, host, port, way):
        async def connected(reader, writer):
            far_reader, far_writer = await asyncio.open_connection(host, port)
            await asyncio.gather(
                self._carry(reader, far_writer, way), self._carry(far_reader, writer, way)
            )

        server = await asyncio.start_server(connected, host, 0)
        return server.sockets[0].getsockname()[1]

    async def _carry(self, reader, writer, way):
        held = asyncio.Queue()

        async def deliver():
            while (item := await held.get()) is not None:
                due, data = item
                await asyncio.sleep(due - self._loop.time())
                writer.write(data)
                await writer.drain()
            writer.close()

        delivering = asyncio.create_task(deliver())
        try:
            while data := await reader.read(1 << 16):
                held.put_nowait((self._loop.time() + way, data))
        except ConnectionError:
            pass
        held.put_nowait(None)
        await asyncio.gather(delivering, return_exceptions=True)
