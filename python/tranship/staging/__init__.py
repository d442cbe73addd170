"""The staging service: programs exchange versioned boxes of arrays through servers' memory."""

from .client import Staging
from .server import StagingServer
from .steps import Step
from .subscription import Subscription
from .variable import Variable
from .versions import Versions

__all__ = ["Staging", "StagingServer", "Step", "Subscription", "Variable", "Versions"]
