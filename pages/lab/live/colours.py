"""Which state has which colour: as a link says, as known states say, as in the picture before, or so that neighbouring
states are told apart."""

from __future__ import annotations

from gdm_core.analysis.matching import Order, in_order, inverse, order_of
from gdm_studio.plot import palette
from pages.lab.live.pictures import Array, Shown, Wanted


class Colours:
    """The orders of colours of one live fit, which follow each other."""

    def __init__(self) -> None:
        self._anchor: tuple[str, tuple[Array, ...]] | None = None
        self.first: Order | None = None  # of a copied link, for the first fit

    def follow(self, now: Shown) -> None:
        """From now on, colours follow what stands on the screen at this moment."""
        self._anchor = self._after(now)

    def follows(self, after: Shown | None = None) -> tuple[Array, ...]:
        """The states whose colours the next ones follow, () for none; `after` as in `order`."""
        anchor = self._anchor if after is None else self._after(after)
        return () if anchor is None else anchor[1]

    def _after(self, now: Shown) -> tuple[str, tuple[Array, ...]] | None:
        if now.train and now.wanted is not None:
            return now.wanted.train.fingerprint, now.train
        return self._anchor

    def order(self, wanted: Wanted, raw: tuple[Array, ...], after: Shown | None = None) -> Order:
        """Of the states `raw` of a fit of `wanted`: column j on the screen is column order[j] of the model.

        raw    of all trials, or of the first ones
        after  as if it were asked for while this stands
        """
        if not raw:
            return ()
        if self.first is not None and len(self.first) == raw[0].shape[1]:
            return self.first
        anchor = self._anchor if after is None else self._after(after)
        here = anchor is not None and anchor[0] == wanted.train.fingerprint
        before = anchor[1][: len(raw)] if here and anchor is not None else None
        truth = None if wanted.truth is None else wanted.truth[: len(raw)]
        return order_of(raw, truth, before, palette.DIFFERENCES)


def is_plain(shown: Shown) -> bool:
    """Whether anybody who opens the link gets these colours without being told."""
    if shown.wanted is None or not shown.train:
        return True
    truth = shown.wanted.truth

    def plain() -> Order:
        return order_of(in_order(shown.train, inverse(shown.order)), truth, None, palette.DIFFERENCES)

    return bool(shown.order == shown.once("plain-order", plain, of=shown.train))
