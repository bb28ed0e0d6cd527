"""The measurements: each takes a rig and a pace, and answers samples of one or more figures."""
