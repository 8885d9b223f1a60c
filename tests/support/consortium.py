"""Parties in one process, for tests: their journals are real files, and whoever carries the
messages may do what it likes.
"""

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np

from pdml.mechanisms.randomness import Simulated
from pdml.node.crypto.hpke import SealingKey
from pdml.node.crypto.signing import Identity
from pdml.node.job.participant import Participant
from pdml.node.job.training_data import TrainingData
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.storage.journal import Journal
from pdml.numerics.admm import labels
from pdml.numerics.admm.graph import Graph
from pdml.planning.server_spec import RowSpec, TrainingTerms
from pdml.planning.training_plan import TrainingPlan
from pdml.training import local_engine, sums_release
from pdml.training.server import Server

NAMES = ("alice", "bob", "carol", "dave")
EDGES = ((0, 1), (1, 2), (2, 3), (0, 3), (0, 2))
EPSILON, WIDTH = 1.0, 4
PLAN = TrainingPlan(rounds=12, noise_scale=0.3, noise_decay=0.9, objective_bound=0.5)
SUMS = TrainingPlan(method="sums", label_noise=2.0, square_noise=3.0)
MASKED = replace(SUMS, colluding=1)


def kept(kind, path):
    return kind.load(path) if path.exists() else kind.create(path)


class Consortium:
    """Four organisations with 40 to 70 records each; ``kill`` throws a party away, `party` opens it
    again from its journal.
    """

    def __init__(
        self,
        folder,
        *,
        plan=PLAN,
        source=None,
        seed=3,
        budget=None,
        job="job-1",
        classes=2,
        study="5" * 64,
        width=WIDTH,
    ):
        self.folder, self.budget, self.dataset = folder, budget, "data of {}"
        self.source = source or Simulated(seed)
        rng = np.random.default_rng(seed)
        terms = {"job": job, "study": study, "plan": plan, "servers": NAMES}
        rows = RowSpec(classes=classes, width=width, menu=(EPSILON,))
        self.job_terms = JobTerms(
            **terms, training=TrainingTerms.over(Graph(len(NAMES), EDGES), rows)
        )
        self.identities, self.keys, self.sealing = {}, {}, {}
        for name in NAMES:
            self.identities[name] = kept(Identity, folder / f"{name}.key")
            self.keys[name] = self.identities[name].public
            self.sealing[name] = kept(SealingKey, folder / f"{name}.sealing")
        cuts = np.cumsum([0, 40, 50, 60, 70])
        x = rng.standard_normal((cuts[-1], width))
        x /= np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True)) * (1 + 1e-9)
        codes = labels.codes(rng.integers(classes, size=len(x)), EPSILON, classes)
        self.servers = [
            Server(
                self.job_terms.training.server_spec(
                    self.job_terms.index(name), records=b - a, epsilons=(EPSILON,)
                ),
                x[a:b].copy(),
                codes[a:b],
            )
            for name, (a, b) in zip(NAMES, pairwise(cuts.tolist()), strict=True)
        ]
        self.parties, self.journals = {}, {}

    def party(self, name):
        if name not in self.parties:
            self.journals[name] = Journal(self.folder / f"{name}.db")
            training_data = TrainingData(
                server=self.servers[NAMES.index(name)], dataset=self.dataset.format(name)
            )
            self.parties[name] = Participant(
                self.job_terms,
                name,
                training_data,
                journal=self.journals[name],
                identity=self.identities[name],
                keys=self.keys,
                source=self.source,
                budget=self.budget,
                shared=self.shared(name) if self.job_terms.masked else None,
            )
        return self.parties[name]

    def shared(self, name):
        """The secrets of ``name``, by its own private key and the others' public ones."""
        others = [other for other in NAMES if other != name]
        return {other: self.sealing[name].shared(self.sealing[other].public) for other in others}

    def kill(self, name):
        self.parties.pop(name, None)
        if journal := self.journals.pop(name, None):
            journal.close()

    def close(self):
        for name in NAMES:
            self.kill(name)

    def meet(self, name):
        """``name`` has just started: it and its neighbours say where they stand, and hand over what
        the other lacks.
        """
        participant = self.party(name)
        for peer in participant.neighbours:
            theirs = self.party(peer)
            theirs.welcome(name, participant.hello(peer))
            assert participant.welcome(
                peer, theirs.hello(name)
            )  # the first hello has told them this node's challenge
            assert theirs.welcome(name, participant.hello(peer))
            for message in theirs.resend(name):
                participant.accept(peer, message)
            for message in participant.resend(peer):
                theirs.accept(name, message)

    def run(self, *, chance=0.0, seed=0, until=None):
        """Deliver until all are done; with probability ``chance`` somebody dies before or after a
        commit, or before sending.
        """
        rng = random.Random(seed)
        rounds = until or self.job_terms.plan.rounds
        for name in NAMES:
            self.meet(name)
        while any(self.party(name).round < rounds for name in NAMES):
            name = rng.choice(NAMES)
            party = self.party(name)
            if rng.random() < chance:
                self.kill(name)
                self.meet(name)
                continue
            if party.ready and party.round < rounds:
                t = party.advance()
                if rng.random() < chance:  # committed, and nothing sent
                    self.kill(name)
                    self.meet(name)
                    continue
                for peer in rng.sample(party.neighbours, len(party.neighbours)):
                    for _ in range(rng.choice([1, 1, 2])):  # delivered twice now and then
                        self.party(peer).accept(name, party.message(peer, t))
        return np.array([self.party(name).released for name in NAMES])

    def rows(self):
        """Of sums: what each server would send without masks, in one trust domain."""
        plan = self.job_terms.plan
        return np.array(
            [
                sums_release.release_sums(
                    sums_release.exact(server, plan), server, plan, self.source
                )
                for server in self.servers
            ]
        )

    def by_local_engine(self):
        return local_engine.train(
            self.job_terms.graph, local_engine.Run(self.job_terms.plan, self.servers, self.source)
        ).released
