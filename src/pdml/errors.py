"""Everything PDML refuses, as one small tree.

PDMLError
├── InvalidInput        a parameter, a file or a data set is not acceptable (also a ValueError)
│   ├── DataError       a table or an array, with the row and column named
│   └── GraphError      the servers cannot reach one another
├── NotCertified        a primal solve did not reach the tolerance that the privacy proof needs
└── BudgetExceeded      going on would spend more privacy than the study allows
"""


class PDMLError(Exception):
    """Base of every error PDML raises on purpose; its text is one sentence for people."""


class InvalidInput(PDMLError, ValueError):
    """A value lies outside its domain."""


class DataError(InvalidInput):
    """A data set cannot be used as it is."""


class GraphError(InvalidInput):
    """The communication graph does not connect the servers."""


class NotCertified(PDMLError, ArithmeticError):
    """The gradient norm at the returned point exceeds the plan's tolerance."""


class BudgetExceeded(PDMLError):
    """The privacy budget does not cover what was asked."""
