"""The Gumbel-Softmax distribution under the name that users import; the code is in gdm_core/maths/relaxed.py."""

from gdm_core.maths.relaxed import gumbel_softmax_kl

__all__ = ["gumbel_softmax_kl"]
