"""The live channel, which updates panels of a page while no script runs."""

from pages.channel.live import ROUTE, Channel, channel
from pages.channel.scene import LivePanels, Panel, Panels, Scene, Tables

__all__ = ["ROUTE", "Channel", "LivePanels", "Panel", "Panels", "Scene", "Tables", "channel"]
