"""The user's installation: the scripts that set up a checkout, the wheel, the sdist, and environments for the wheel.

``distributions`` builds wheel and sdist once per run, and creates environments with the wheel.
"""
