"""Prometheus text: totals of this process only. Counts per class or ε are the operator's, not
everybody's.
"""

from pdml.collect.service import Service

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render(service: Service) -> str:
    counters, writer = service.counters, service.writer
    lines: list[str] = []

    def add(name: str, kind: str, text: str, values: dict[str, float]) -> None:
        lines.extend((f"# HELP {name} {text}", f"# TYPE {name} {kind}"))
        lines.extend(f"{name}{labels} {value!r}" for labels, value in values.items())

    add(
        "pdml_collect_reports_stored_total",
        "counter",
        "Reports stored since the start.",
        {"": counters.stored},
    )
    add(
        "pdml_collect_reports_replayed_total",
        "counter",
        "Reports sent again and answered as the first time.",
        {"": counters.replayed},
    )
    problems: dict[str, float] = {
        f'{{code="{code}"}}': count for code, count in service.problems().items()
    }
    add(
        "pdml_collect_problems_total",
        "counter",
        "Reports, requests and connections refused, by code.",
        problems,
    )
    bad, late = service.attempts.counted, service.attempts.slowed
    add("pdml_collect_bad_tokens_total", "counter", "Tokens that were never issued.", {"": bad})
    add("pdml_collect_bad_tokens_slowed_total", "counter", "Late answers to them.", {"": late})
    add(
        "pdml_collect_commits_total",
        "counter",
        "Transactions, each for many reports.",
        {"": writer.commits},
    )
    add(
        "pdml_collect_commit_seconds_total",
        "counter",
        "Time spent in them.",
        {"": writer.commit_seconds},
    )
    add(
        "pdml_collect_queued",
        "gauge",
        "Reports waiting for their transaction.",
        {"": writer.queued},
    )
    add(
        "pdml_collect_connections",
        "gauge",
        "Connections open now.",
        {"": service.guard.connections},
    )
    add(
        "pdml_collect_uptime_seconds",
        "gauge",
        "Time since the start.",
        {"": service.clock() - counters.started},
    )
    return "\n".join(lines) + "\n"
