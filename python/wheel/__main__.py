"""`python -m pith`: as `pith`."""
from pith_programs import pith

pith()
