"""Who can learn what: events, profiles, the joint degree, the ledger, budgets and the last safe
round.
"""

from pdml.accounting.budget import Budget, last_safe_round
from pdml.accounting.ledger import Ledger
from pdml.accounting.ledger_row import LedgerRow
from pdml.accounting.per_person import PersonAnswerRows, PersonRows, Reports
from pdml.accounting.profiles import epsilon_at, gaussian_profile, joint_epsilon, joint_profile

__all__ = [
    "Budget",
    "Ledger",
    "LedgerRow",
    "PersonAnswerRows",
    "PersonRows",
    "Reports",
    "epsilon_at",
    "gaussian_profile",
    "joint_epsilon",
    "joint_profile",
    "last_safe_round",
]
