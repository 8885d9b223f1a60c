"""Who can learn what: events, profiles, the joint degree, the ledger, budgets and the last safe
round.
"""

from pdml.accounting.budget import Budget, last_safe_round
from pdml.accounting.ledger import Ledger
from pdml.accounting.lines import Line
from pdml.accounting.profiles import epsilon_at, gaussian_profile, joint_epsilon, joint_profile
from pdml.accounting.users import AnswerLines, Reports, UserLines

__all__ = [
    "AnswerLines",
    "Budget",
    "Ledger",
    "Line",
    "Reports",
    "UserLines",
    "epsilon_at",
    "gaussian_profile",
    "joint_epsilon",
    "joint_profile",
    "last_safe_round",
]
