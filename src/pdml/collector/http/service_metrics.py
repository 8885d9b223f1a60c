"""Prometheus text: totals of this process only. Counts per class or ε are the operator's, not
everybody's.
"""

from pdml.collector.intake.service import Service

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render(service: Service) -> str:
    """What has happened since the start, and what is going on."""
    counters, writer, attempts = service.counters, service.writer, service.attempts
    refused = {f'{{code="{code}"}}': count for code, count in service.problems().items()}
    metrics: list[tuple[str, str, float | dict[str, int]]] = [
        ("reports_stored_total", "Reports stored since the start.", counters.stored),
        (
            "reports_replayed_total",
            "Reports sent again and answered as the first time.",
            counters.replayed,
        ),
        ("problems_total", "Reports, requests and connections refused, by code.", refused),
        (
            "bad_tokens_total",
            "Invitations never issued, codes that withdraw nothing, and ids of others.",
            attempts.counted,
        ),
        ("bad_tokens_slowed_total", "Late answers to them.", attempts.slowed),
        ("commits_total", "Transactions, each for many reports.", writer.commits),
        ("commit_seconds_total", "Time spent in them.", writer.commit_seconds),
        ("queued", "Reports waiting for their transaction.", writer.queued),
        ("connections", "Connections open now.", service.guard.connections),
        ("uptime_seconds", "Time since the start.", service.clock() - counters.started),
    ]
    lines = []
    for name, text, values in metrics:
        name, kind = f"pdml_collect_{name}", "counter" if name.endswith("_total") else "gauge"
        lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
        samples = values if isinstance(values, dict) else {"": values}
        lines += [f"{name}{labels} {value!r}" for labels, value in samples.items()]
    return "\n".join(lines) + "\n"
