"""Who can learn what: events, profiles, the joint degree and the ledger."""

from pdml.accounting.ledger import Ledger, Line
from pdml.accounting.profiles import epsilon_at, gaussian_profile, joint_epsilon, joint_profile

__all__ = ["Ledger", "Line", "epsilon_at", "gaussian_profile", "joint_epsilon", "joint_profile"]
