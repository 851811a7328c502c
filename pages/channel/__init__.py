"""The live channel: what moves on a page travels beside Streamlit, while no script runs.

messages   the messages of both ways, named in messages.json, which components/channel.js is tested against too
scene      what a page's script leaves behind: the parts that may move, and why the script is to run again
visitor    one visitor's channel: looks at the scene and says what has changed
route      its address
"""

from pages.channel.scene import Moving, Part, Parts, Scene, Tables
from pages.channel.visitor import ROUTE, Channel, channel

__all__ = ["ROUTE", "Channel", "Moving", "Part", "Parts", "Scene", "Tables", "channel"]
