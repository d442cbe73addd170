"""Arrays that a copy may name: instances with a layout, files, arrays of other processes and GPUs.

NumPy arrays and everything with the buffer protocol need nothing from here.
"""

from .conversion import to_core
from .device import DeviceArray
from .file import File
from .instance import Instance
from .remote import RemoteArray
from .selection import Selection

__all__ = ["DeviceArray", "File", "Instance", "RemoteArray", "Selection", "to_core"]
