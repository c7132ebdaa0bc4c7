"""Lines of each view from what is known of a cluster. Pure: no clock, no network, no terminal.

``known`` has what was read, ``use`` what agents measured, ``lines`` the values of a line. A module for each
view makes its lines; ``gpufleet.top.screen`` lays them out.
"""
