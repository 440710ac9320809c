"""Reads the JSON of a part in the first argument, and prints the JSON that the client would send for it."""

import sys

from gadgets_client.models import Part

print(Part.from_json(sys.argv[1]).to_json())
