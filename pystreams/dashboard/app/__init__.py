"""The application: routes, files of the pages, and the HTTP server.

May import every room of the dashboard. Sends no requests about streams, which is the task of `api`.
"""
