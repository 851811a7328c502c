"""Comparisons of conditions over many recordings, with the animal as the unit."""

from gdm_core.study.flow import Flow
from gdm_core.study.power import Power
from gdm_core.study.question import Question
from gdm_core.study.study import Study

__all__ = ["Flow", "Power", "Question", "Study"]
