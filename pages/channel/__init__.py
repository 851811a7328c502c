"""The live channel: what moves on a page travels beside Streamlit, while no script runs.

messages   the messages of both ways, named in messages.json, which components/channel.js is tested against too
visitor    one visitor's channel: looks at the scene, which a page's script leaves behind, and says what has changed
route      its address
"""

from pages.channel.visitor import ROUTE, Channel, LivePanels, Panel, Panels, Scene, Tables, channel

__all__ = ["ROUTE", "Channel", "LivePanels", "Panel", "Panels", "Scene", "Tables", "channel"]
