"""Messages of applications: types packed, unpacked and sent."""
