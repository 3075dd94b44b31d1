"""What a user installs: the scripts that set up a checkout, the wheel, the sdist, and places where the wheel is used.

``distributions`` builds wheel and sdist once a run, and makes environments with the wheel in them.
"""
