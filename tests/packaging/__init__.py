"""Tests of the installation: the setup scripts of a checkout, the wheel, the sdist, and environments with the wheel.

``distributions`` builds the wheel and the sdist once per run, and creates environments with the wheel.
"""
