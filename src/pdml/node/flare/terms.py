"""What a job says, all of it public: each node turns it into a contract with its own study file, or refuses."""

from typing import Any

import msgspec

from pdml.errors import InvalidInput
from pdml.node import holdings
from pdml.node.contract import Contract
from pdml.node.sentences import public_terms
from pdml.study import Study
from pdml.train.plan import TrainingPlan


class Terms(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The job's name, the hash of the study it was made with, its plan, and who takes part."""

    job: str
    study: str
    plan: dict[str, Any]
    servers: list[str]

    @classmethod
    def of(cls, contract: Contract) -> "Terms":
        return cls(job=contract.job, study=contract.study, plan=contract.plan.to_dict(), servers=list(contract.servers))

    @classmethod
    @public_terms()
    def read(cls, values: Any) -> "Terms":
        try:
            return msgspec.convert(values, cls)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"the job's terms cannot be read: {error}") from None

    @public_terms()
    def contract(self, study: Study) -> Contract:
        """This job under this node's own study: links, sizes and floor are the study's, never the job's."""
        if study.hash != self.study:
            raise InvalidInput(
                f"the job is for the study {self.study[:12]}..., but this node has {study.hash[:12]}...: the contracts differ"
            )
        if self.servers != [server.name for server in study.servers]:
            raise InvalidInput(f"the job names the servers {', '.join(self.servers)}, which are not the study's")
        return holdings.agreed(study, TrainingPlan.from_dict(dict(self.plan)), self.job)
