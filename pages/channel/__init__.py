"""The live channel: updates panels of a page while no script runs.

messages   messages of both directions
visitor    one visitor's channel: makes the panels of the scene again and sends those that changed
route      its address
"""

from pages.channel.visitor import ROUTE, Channel, LivePanels, Panel, Panels, Scene, Tables, channel

__all__ = ["ROUTE", "Channel", "LivePanels", "Panel", "Panels", "Scene", "Tables", "channel"]
