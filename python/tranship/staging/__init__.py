"""The staging service: programs exchange versioned boxes of arrays through servers' memory."""

from .attributes import Attributes
from .client import Staging
from .offers import Offer
from .recordings import Recorded, Replayed, record, replay
from .reductions import Summary
from .server import StagingServer
from .step_list import ListedStep
from .step_writer import StepWriter, VariableWriter
from .steps import Step, Steps, StepVariable
from .subscription import Subscription
from .variable import Variable
from .versions import Versions

__all__ = [
    "Attributes",
    "ListedStep",
    "Offer",
    "Recorded",
    "Replayed",
    "Staging",
    "StagingServer",
    "Step",
    "StepVariable",
    "StepWriter",
    "Steps",
    "Subscription",
    "Summary",
    "Variable",
    "VariableWriter",
    "Versions",
    "record",
    "replay",
]
