"""A job as files: two configurations that name our classes and carry the contract's public terms. No code is shipped."""

import json
from pathlib import Path
from typing import Any

import msgspec

from pdml.node.contract import Contract
from pdml.node.flare.provision import CONTROLLER, EXECUTOR
from pdml.node.flare.terms import Terms
from pdml.node.flare.topics import FINISH, TRAIN


def write_job(
    folder: Path, contract: Contract, *, resume: bool, start_timeout: float, round_timeout: float, executors: dict[str, str] | None = None
) -> Path:
    """The job's folder in ``folder``; ``executors`` names another class for some sites, which their own allow list must hold."""
    job = folder / contract.job
    longest = start_timeout + round_timeout * contract.plan.rounds
    arguments = {
        "terms": msgspec.to_builtins(Terms.of(contract)),
        "resume": resume,
        "start_timeout": start_timeout,
        "round_timeout": round_timeout,
    }
    controller = {
        "format_version": 2,
        "workflows": [
            {
                "id": "pdml",
                "path": CONTROLLER,
                "args": {"servers": list(contract.servers), "rounds": contract.plan.rounds, "timeout": longest},
            }
        ],
    }
    _put(job / "app_relay" / "config" / "config_fed_server.json", controller)
    deploy = {"app_relay": ["server"]}
    for name in contract.servers:
        executor = {"path": (executors or {}).get(name, EXECUTOR), "args": arguments}
        config = {"format_version": 2, "executors": [{"tasks": [TRAIN, FINISH], "executor": executor}]}
        _put(job / f"app_{name}" / "config" / "config_fed_client.json", config)
        deploy[f"app_{name}"] = [name]
    meta = {
        "name": contract.job,
        "resource_spec": {},
        "deploy_map": deploy,
        "min_clients": len(contract.servers),
        "mandatory_clients": list(contract.servers),
    }
    _put(job / "meta.json", meta)
    return job


def _put(path: Path, values: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values, indent=1))
