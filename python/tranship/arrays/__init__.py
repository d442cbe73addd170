"""Arrays that a copy may name: instances with a layout, files, arrays of other processes and GPUs.

NumPy arrays and everything with the buffer protocol need nothing from here.
"""

from .conversion import to_core
from .device import DeviceArray
from .file import File
from .instance import Instance
from .remote import RemoteArray

__all__ = ["DeviceArray", "File", "Instance", "RemoteArray", "to_core"]
