"""A store that forgets what was used longest ago."""
from collections import OrderedDict


class Recent:
    def __init__(self, room):
        if room < 1:
            raise ValueError("room for at least one entry")
        self.room = room
        self.entries = OrderedDict()

    def get(self, key, default=None):
        """The value of a key, which counts as a use."""
        if key not in self.entries:
            return default
        self.entries.move_to_end(key)
        return self.entries[key]

    def put(self, key, value):
        """Keeps a value; the entry used longest ago goes if there is no room."""
        self.entries[key] = value
        self.entries.move_to_end(key)
        if len(self.entries) > self.room:
            self.entries.popitem(last=False)

    def __len__(self):
        return len(self.entries)
