"""The application: routes, files of the pages, and the HTTP server.

This package may import every package of the dashboard. It sends no requests about streams, which is the task of `api`.
"""
