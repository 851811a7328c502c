# For type checkers, which cannot follow the path in __init__.py.
from datasets import calms21 as calms21
from datasets import cohort as cohort
from datasets import cohort_files as cohort_files
from datasets import formula1 as formula1
from datasets import keypoints as keypoints
from datasets import mice as mice
from datasets import nascar as nascar
from datasets import tables as tables
from datasets import windows as windows
